package main

// Does each rule go red when it is broken, and only then? Every rule has a test of its own beside
// it; here are the way they are shown red, and the repository itself, which must be green.

import (
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// repository makes a file tree out of path, content, path, content…
func repository(pathsAndContents ...string) fs.FS {
	tree := fstest.MapFS{}
	for i := 0; i < len(pathsAndContents); i += 2 {
		tree[pathsAndContents[i]] = &fstest.MapFile{Data: []byte(pathsAndContents[i+1])}
	}
	return tree
}

// wantFindings fails unless check finds exactly as many places as want has texts, each with its text.
func wantFindings(t *testing.T, check func(fs.FS) ([]finding, error), files fs.FS, want ...string) {
	t.Helper()
	found, err := check(files)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != len(want) {
		t.Fatalf("found %v, want %d findings: %q", found, len(want), want)
	}
	for i, f := range found {
		if !strings.Contains(f.String(), want[i]) {
			t.Errorf("finding %d is %q, want one with %q", i, f, want[i])
		}
	}
}

func TestThisRepositoryKeepsItsRules(t *testing.T) {
	for _, r := range rules {
		t.Run(r.promise, func(t *testing.T) {
			wantFindings(t, r.check, os.DirFS("../.."))
		})
	}
}

func TestJudgeFailsOnAnyBrokenRule(t *testing.T) {
	kept := rule{"kept", func(fs.FS) ([]finding, error) { return nil, nil }}
	broken := rule{"broken", func(fs.FS) ([]finding, error) { return []finding{{"a.go", 3, "wrong"}}, nil }}
	unreadable := rule{"unreadable", func(fs.FS) ([]finding, error) { return nil, fs.ErrPermission }}

	var report strings.Builder
	err := judge(repository(), []rule{kept, broken, unreadable}, &report)
	if err == nil || err.Error() != "2 of 3 rules broken" {
		t.Errorf("error %v", err)
	}
	for _, line := range []string{"✔ kept", "✘ broken", "a.go:3: wrong", "✘ unreadable", "cannot be judged: permission denied"} {
		if !strings.Contains(report.String(), line) {
			t.Errorf("report lacks %q:\n%s", line, report.String())
		}
	}
	if err := judge(repository(), []rule{kept}, io.Discard); err != nil {
		t.Errorf("all kept, yet %v", err)
	}
}
