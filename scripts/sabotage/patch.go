package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// This file answers: what does a patch file say? Two lines of its own, then what git made:
//
//	guard: a row is marked only after its own confirm
//	red: ./scripts/scenario -run TestScenarios/02-crash-after-publish
//
//	diff --git …

type patch struct {
	name  string
	file  string   // absolute, since git runs elsewhere
	guard string   // what is removed
	test  []string // arguments of go test, which must fail
	files []string // what it changes
}

func readPatches(dir string) ([]patch, error) {
	found, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no patches in %s: run from the repository's root", dir)
	}
	slices.Sort(found)
	patches := make([]patch, len(found))
	for i, file := range found {
		if patches[i], err = readPatch(file); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return patches, nil
}

func readPatch(file string) (patch, error) {
	absolute, err := filepath.Abs(file)
	if err != nil {
		return patch{}, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return patch{}, err
	}
	p := patch{name: strings.TrimSuffix(filepath.Base(file), ".patch"), file: absolute}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "guard: ") && p.files == nil:
			p.guard = strings.TrimPrefix(line, "guard: ")
		case strings.HasPrefix(line, "red: ") && p.files == nil:
			p.test = strings.Fields(strings.TrimPrefix(line, "red: "))
		case strings.HasPrefix(line, "+++ b/"):
			p.files = append(p.files, strings.TrimPrefix(line, "+++ b/"))
		}
	}
	if p.guard == "" || len(p.test) == 0 || len(p.files) == 0 {
		return patch{}, fmt.Errorf("needs a line guard:, a line red: and a diff")
	}
	return p, lines.Err()
}
