package main

// Which files do the rules look at, and how are Go files read?

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"slices"
	"strings"
)

// notOurs are folders with nothing that a person wrote for this repository.
var notOurs = []string{".git", ".stack", "bin", "node_modules"}

// each calls visit with every file whose name ends in one of suffixes ("" = all), in name order.
func each(files fs.FS, suffixes []string, visit func(path string, content []byte) error) error {
	return fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains(notOurs, path) {
				return fs.SkipDir
			}
			return nil
		}
		ends := func(suffix string) bool { return strings.HasSuffix(path, suffix) }
		if !entry.Type().IsRegular() || !slices.ContainsFunc(suffixes, ends) {
			return nil
		}
		content, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		return visit(path, content)
	})
}

// goFile is one parsed Go file.
type goFile struct {
	path string
	*ast.File
}

// isTest tells whether only `go test` compiles the file.
func (g goFile) isTest() bool { return strings.HasSuffix(g.path, "_test.go") }

// eachGo calls visit with every Go file, comments included.
func eachGo(files fs.FS, visit func(g goFile) error) error {
	return each(files, []string{".go"}, func(path string, content []byte) error {
		parsed, err := parser.ParseFile(token.NewFileSet(), path, content, parser.ParseComments)
		if err != nil {
			return err
		}
		return visit(goFile{path, parsed})
	})
}
