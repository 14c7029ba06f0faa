package main

// Is work left behind as a note in the text? What matters is an issue; what does not is deleted.

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// The words are put together here so that this file does not find itself.
var marker = regexp.MustCompile(`\b(` + strings.Join([]string{"TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"}, "|") + `)\b`)

func checkMarkers(files fs.FS) (found []finding, err error) {
	err = each(files, []string{""}, func(path string, content []byte) error {
		if strings.HasSuffix(path, "go.sum") || strings.Contains(string(content), "\x00") {
			return nil
		}
		for i, line := range strings.Split(string(content), "\n") {
			if word := marker.FindString(line); word != "" {
				found = append(found, finding{path, i + 1, fmt.Sprintf("%s: finish it, or open an issue", word)})
			}
		}
		return nil
	})
	return found, err
}
