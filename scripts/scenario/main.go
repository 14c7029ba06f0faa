// Command scenario tells failure stories on real servers and judges how they end.
//
// It answers: does the promise hold when something dies? Each scripts/scenarios/NN-name.txt is one story, performed
// with the real services by the words of a small language (verbs.go), then judged by counted invariants (invariants.go).
// The same files are subtests of `go test ./scripts/scenario`. The way of one story through the code:
// script.go → perform.go → verbs.go → verdict.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"example.com/outboxlab/pkg/printable"
	"example.com/outboxlab/scripts/blackbox"
	"example.com/outboxlab/scripts/lab"
	"example.com/outboxlab/scripts/stack/servers"
)

func main() {
	// Also a closed terminal and a reader that went away (`| head`) should leave no database and no service behind.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run returns the exit code: 0 every verdict is ✔, 1 one is ✘ or a stage could not be set, 2 wrong usage.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("scenario", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {} // a mistake gets one line, and only --help the whole page
	list := flags.Bool("list", false, "")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		help(stdout)
		return 0
	} else if err != nil {
		return 2
	}
	root, err := blackbox.ModuleRoot(ctx)
	if err != nil {
		return complain(stderr, err, 1)
	}
	scripts, err := readScripts(filepath.Join(root, "scripts", "scenarios"), flags.Args())
	if err != nil {
		return complain(stderr, err, 2)
	}
	if *list {
		listScripts(stdout, scripts)
		return 0
	}
	if flags.NArg() == 0 {
		scripts = slices.DeleteFunc(scripts, func(s *script) bool { return !s.demo })
	}
	out := newNarrator(stdout, wantsColour(stdout, getenv))
	results, err := performAll(ctx, root, scripts, out, stderr)
	if len(results) > 1 || err != nil && len(results) > 0 {
		closingTable(out, results)
	}
	switch {
	case ctx.Err() != nil:
		return complain(stderr, errors.New("interrupted"), 1)
	case err != nil:
		return complain(stderr, err, 1)
	}
	if slices.ContainsFunc(results, func(r result) bool { return !r.passed() }) {
		return 1
	}
	return 0
}

func complain(stderr io.Writer, err error, code int) int {
	_, _ = fmt.Fprintln(stderr, "scenario:", printable.Lines(err.Error()))
	return code
}

// performAll tells the scripts one after another, on the recorded stack or on servers of their own.
func performAll(ctx context.Context, root string, scripts []*script, out *narrator, progress io.Writer) ([]result, error) {
	binaries, err := os.MkdirTemp("", "outboxlab-bin-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(binaries) }()
	if err := blackbox.Build(ctx, root, binaries); err != nil {
		return nil, err
	}
	var results []result
	for _, s := range scripts {
		r, err := performOne(ctx, root, s, binaries, out, progress)
		if err != nil {
			return results, fmt.Errorf("%s: %w", s.name, err)
		}
		results = append(results, r)
		if ctx.Err() != nil {
			break
		}
	}
	return results, nil
}

func performOne(ctx context.Context, root string, s *script, binaries string, out *narrator, progress io.Writer) (r result, err error) {
	var pair *servers.Pair
	var urls servers.URLs
	cleanup := context.WithoutCancel(ctx) // also after ctrl-C nothing is left behind
	if s.ownServers {
		if pair, err = servers.StartPrivate(ctx, progress); err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, pair.Stop(cleanup)) }()
		urls = pair.URLs
	} else if urls, _, err = servers.Recorded(root); err != nil {
		return r, err
	}
	l, err := lab.New(ctx, urls)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, l.Close(cleanup)) }()
	return perform(ctx, s, l, pair, binaries, out)
}
