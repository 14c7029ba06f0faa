// Command sabotage answers: would anybody notice if a guard were gone? Each patch beside this file
// removes one guard and names the test that must then turn red. In a copy of the last commit it
// applies one patch after the other, runs the test, and takes the patch back. A patch that no longer
// applies, or a test that stays green, fails the run: a guard without a test is a comment.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"example.com/outboxlab/pkg/service"
)

func main() { os.Exit(service.Run("sabotage", run)) }

// CLI is the command line.
type CLI struct {
	Run struct {
		Names   []string `arg:"" optional:"" name:"patch" help:"Patches to run, by name (default: all)."`
		Touched bool     `help:"Only the patches to files that the last ten commits touched, and three others in turn."`
		List    bool     `help:"List the patches and the tests that must turn red."`
	} `cmd:"" default:"withargs" help:"Remove guards and see their tests turn red."`
}

const examples = `Examples:
  make sabotage                                                    all, on servers of their own
  go run ./scripts/stack with -- go run ./scripts/sabotage no-mandatory
  go run ./scripts/sabotage --list`

func run(ctx context.Context, args []string, _ func(string) string, stdout io.Writer) error {
	var cli CLI
	command, err := service.ParseArgs("sabotage", "Remove one guard at a time; its test must turn red.", examples, &cli, args, stdout)
	if err != nil || command == "" {
		return err
	}
	patches, err := readPatches("scripts/sabotage")
	if err != nil {
		return err
	}
	if cli.Run.Touched {
		patches, err = touched(ctx, patches)
	} else {
		patches, err = named(patches, cli.Run.Names)
	}
	if err != nil {
		return err
	}
	if cli.Run.List {
		for _, p := range patches {
			fmt.Fprintf(stdout, "%s: %s\n  red: go test %s\n", p.name, p.guard, strings.Join(p.test, " "))
		}
		return nil
	}
	return runAll(ctx, patches, stdout)
}

// runAll runs the patches in a worktree of the last commit and prints a table.
func runAll(ctx context.Context, patches []patch, stdout io.Writer) error {
	dir, remove, err := worktree(ctx)
	if err != nil {
		return err
	}
	defer remove()
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	failed := 0
	for _, p := range patches {
		fmt.Fprintf(stdout, "removing %s: %s\n", p.name, p.guard)
		started := time.Now()
		verdict := "✔ turned red"
		if err := try(ctx, dir, p); err != nil {
			verdict = "✘ " + err.Error()
			failed++
		}
		fmt.Fprintf(table, "%s\t%s\t%.0f s\n", p.name, verdict, time.Since(started).Seconds())
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d guards can go without anybody noticing", failed, len(patches))
	}
	return nil
}

// named picks patches by name; no names means all.
func named(patches []patch, names []string) ([]patch, error) {
	if len(names) == 0 {
		return patches, nil
	}
	byName := map[string]patch{}
	for _, p := range patches {
		byName[p.name] = p
	}
	var picked []patch
	for _, name := range names {
		p, ok := byName[strings.TrimSuffix(filepath.Base(name), ".patch")]
		if !ok {
			return nil, service.Usagef("there is no patch %q; --list shows all", name)
		}
		picked = append(picked, p)
	}
	return picked, nil
}
