package main

// Who may end the process? A hidden os.Exit skips deferred calls and the drain after SIGTERM, so
// it belongs to func main and to pkg/crash, whose purpose that is.

import (
	"go/ast"
	"io/fs"
	"strings"
)

var endsProcess = map[string]bool{
	"os.Exit": true, "syscall.Exit": true, "log.Fatal": true, "log.Fatalf": true, "log.Fatalln": true,
}

func checkExits(files fs.FS) (found []finding, err error) {
	err = eachGo(files, func(g goFile) error {
		if g.isTest() || strings.HasPrefix(g.path, "pkg/crash/") {
			return nil
		}
		for _, declaration := range g.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && g.Name.Name == "main" && function.Name.Name == "main" {
				continue
			}
			ast.Inspect(declaration, func(node ast.Node) bool {
				if call := callOf(node); endsProcess[call] {
					found = append(found, finding{g.path, g.line(node), call + " outside func main and pkg/crash: return an error instead"})
				}
				return true
			})
		}
		return nil
	})
	return found, err
}
