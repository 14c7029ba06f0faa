package main

// Is every crash point used by a scenario, and told in docs/guarantees.md? A point nobody plays is a
// window nobody has looked into; one nobody explains is a riddle in a workshop.

import (
	"io/fs"
	"regexp"
	"strings"

	"example.com/outboxlab/pkg/crash"
)

// aliases are the flags known from the workshop text.
var aliases = strings.NewReplacer(
	"CRASH_AFTER_PUBLISH=1", "relay.after-publish",
	"CRASH_BEFORE_ACK=1", "loyalty.before-ack",
)

const guaranteesPage = "docs/guarantees.md"

func checkCrashPoints(files fs.FS) ([]finding, error) {
	found, err := unplayed(files, crash.Points)
	if err != nil {
		return nil, err
	}
	return append(found, untold(files, crash.Points)...), nil
}

// unplayed returns one finding for each point that no line of a scenario, comments aside, names.
func unplayed(files fs.FS, points []crash.Point) (found []finding, err error) {
	scripts, err := fs.Glob(files, "scripts/scenarios/*.txt")
	if err != nil {
		return nil, err
	}
	var played strings.Builder
	for _, script := range scripts {
		content, err := fs.ReadFile(files, script)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(content)) {
			if !strings.HasPrefix(strings.TrimSpace(line), "#") {
				played.WriteString(aliases.Replace(line))
			}
		}
	}
	for _, point := range points {
		if !names(played.String(), point) {
			found = append(found, finding{file: "scripts/scenarios", what: "no scenario uses the crash point " + string(point)})
		}
	}
	return found, nil
}

// untold returns one finding for each point that docs/guarantees.md does not name.
func untold(files fs.FS, points []crash.Point) (found []finding) {
	page, err := fs.ReadFile(files, guaranteesPage)
	if err != nil {
		return []finding{{file: guaranteesPage, what: "cannot be read: " + err.Error()}}
	}
	for _, point := range points {
		if !names(string(page), point) {
			found = append(found, finding{file: guaranteesPage, what: "does not tell of the crash point " + string(point)})
		}
	}
	return found
}

// names tells whether text has the whole name of point in it, not just the beginning of a longer one.
func names(text string, point crash.Point) bool {
	return regexp.MustCompile(`(^|[^a-z.-])` + regexp.QuoteMeta(string(point)) + `($|[^a-z.-])`).MatchString(text)
}
