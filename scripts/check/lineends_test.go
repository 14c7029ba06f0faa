package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A clone by somebody whose git converts line ends, as on Windows, has none converted: a shell takes a carriage return for
// a part of the last word of its line.
func TestACloneHasUnixLineEnds(t *testing.T) {
	if _, err := os.Stat("../../.git"); err != nil {
		t.Skip("not a clone itself")
	}
	clone := filepath.Join(t.TempDir(), "clone")
	git := exec.Command("git", "-c", "core.autocrlf=true", "-c", "core.eol=crlf", "clone", "--quiet", "../..", clone)
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v\n%s", err, out)
	}
	err := filepath.WalkDir(clone, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if entry != nil && entry.Name() == ".git" {
				return fs.SkipDir
			}
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("\r\n")) && !bytes.Contains(text, []byte{0}) { // a NUL: not a text
			t.Errorf("%s has carriage returns", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
