package main

// Does a test sleep? A sleep is too short on a slow machine and too long on every other: poll a
// condition with a deadline (scripts/lab has Poll) or wait for a channel.

import (
	"go/ast"
	"go/token"
	"io/fs"
)

func checkSleeps(files fs.FS) (found []finding, err error) {
	err = eachGo(files, func(g goFile) error {
		if !g.isTest() {
			return nil
		}
		deadlines := map[ast.Stmt]bool{} // `case <-time.After(…):` of a select is no sleep
		ast.Inspect(g.File, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.CallExpr:
				if callOf(n) == "time.Sleep" {
					found = append(found, finding{g.path, g.line(n), "time.Sleep in a test"})
				}
			case *ast.CommClause:
				deadlines[n.Comm] = true
			case *ast.ExprStmt:
				receive, ok := n.X.(*ast.UnaryExpr)
				if ok && receive.Op == token.ARROW && callOf(receive.X) == "time.After" && !deadlines[n] {
					found = append(found, finding{g.path, g.line(n), "<-time.After in a test is a sleep"})
				}
			}
			return true
		})
		return nil
	})
	return found, err
}
