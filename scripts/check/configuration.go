package main

// Does docs/configuration.md say what the configuration structs say? The page is generated from
// them: field comment, `env` and `envDefault` tags. This file fills and compares it, structs.go
// reads the structs, configuration.md.tmpl holds the words around the tables.

import (
	"bytes"
	_ "embed"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"text/template"
)

const configurationPage = "docs/configuration.md"

// configured are the folders whose package has a `type Config struct`.
var configured = []string{"services/orders", "services/relay", "services/loyalty", "migrations"}

//go:embed configuration.md.tmpl
var configurationTemplate string

// program is one section of the page.
type program struct {
	Name      string
	Variables []variable
}

func checkConfiguration(files fs.FS) ([]finding, error) {
	want, err := renderConfiguration(files)
	if err != nil {
		return nil, err
	}
	got, err := fs.ReadFile(files, configurationPage)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if !bytes.Equal(got, want) {
		return []finding{{configurationPage, firstDifference(got, want), "differs from the structs: run `make docs`"}}, nil
	}
	return nil, nil
}

// writeConfiguration generates the page into the file called page.
func writeConfiguration(files fs.FS, page string) error {
	content, err := renderConfiguration(files)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(path.Dir(page), 0o755); err != nil {
		return err
	}
	return os.WriteFile(page, content, 0o644)
}

func renderConfiguration(files fs.FS) ([]byte, error) {
	var programs []program
	for _, folder := range configured {
		variables, err := readStruct(files, folder, "Config")
		if err != nil {
			return nil, err
		}
		programs = append(programs, program{path.Base(folder), variables})
	}
	page, err := template.New(configurationPage).Parse(configurationTemplate)
	if err != nil {
		return nil, err
	}
	var content bytes.Buffer
	err = page.Execute(&content, programs)
	return content.Bytes(), err
}

// firstDifference is the number of the first line in which two pages differ, from 1.
func firstDifference(a, b []byte) int {
	linesA, linesB := strings.Split(string(a), "\n"), strings.Split(string(b), "\n")
	for i := range min(len(linesA), len(linesB)) {
		if linesA[i] != linesB[i] {
			return i + 1
		}
	}
	return min(len(linesA), len(linesB)) + 1
}
