// Command bench measures how fast the system is, on servers of its own, and compares it with the best that the broker and
// the database can do, and with other ways to do the same. Ratios of one run hold on other machines; events per second do not.
//
// parts.go lists the parts. A part gets servers of its own (rig.go), a database and a vhost for each measurement (site.go),
// and runs the real services as black boxes (process.go). What is compared takes turns (compare.go). The numbers go to
// bench/results.json (measure.go) and from there to docs/benchmarks.md (page.go). Nothing here judges: a target that was
// missed is shown, and the exit code is 0.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"example.com/outboxlab/pkg/service"
	"example.com/outboxlab/scripts/blackbox"
)

func main() { os.Exit(service.Run("bench", run)) }

// CLI is the command line.
type CLI struct {
	Parts   []string      `arg:"" optional:"" help:"Parts to measure, by name or the start of it; all without."`
	Quick   bool          `help:"Tiny numbers, to see that everything works. What it measures means nothing and is not written."`
	List    bool          `help:"List the parts."`
	Write   bool          `help:"Measure nothing; write the numbers of bench/results.json into docs/benchmarks.md again."`
	Sustain time.Duration `default:"60s" help:"How long the full pipeline must keep its rate."`
	Out     string        `placeholder:"FILE" help:"Where to write the numbers (default: bench/results.json; parts that are not measured keep theirs)."`
}

const examples = `Examples:
  go run ./scripts/bench                           everything, about three quarters of an hour; leave the machine alone meanwhile
  go run ./scripts/bench relay-drain               one part
  go run ./scripts/bench relay                     all parts whose name starts with relay
  go run ./scripts/bench pipeline --sustain 20s    the search for the highest rate, confirmed over 20 s
  go run ./scripts/bench --quick                   does it work at all? two minutes
  go run ./scripts/bench --write                   the table in docs/benchmarks.md, from bench/results.json
  STACK=native go run ./scripts/bench --list       the parts; STACK chooses where servers come from, as in scripts/stack`

func run(ctx context.Context, args []string, _ func(string) string, stdout io.Writer) error {
	var cli CLI
	command, err := parse(&cli, args, stdout)
	if err != nil || command == "" {
		return err
	}
	chosen, err := choose(cli.Parts)
	if err != nil {
		return err
	}
	if cli.List {
		list(stdout)
		return nil
	}
	root, err := blackbox.ModuleRoot(ctx)
	if err != nil {
		return err
	}
	if cli.Write {
		return writePage(root, stdout)
	}
	size := full
	size.sustain = cli.Sustain
	if cli.Quick {
		size = quick
	}
	results, err := measureAll(ctx, root, chosen, size, stdout)
	if err != nil {
		return err
	}
	if cli.Quick {
		fmt.Fprintln(stdout, "\nThis was a quick run: everything works, and the numbers mean nothing.")
	}
	switch {
	case cli.Out != "":
		return results.writeInto(cli.Out, stdout)
	case cli.Quick:
		return nil
	}
	if err := results.writeInto(filepath.Join(root, resultsFile), stdout); err != nil {
		return err
	}
	return writePage(root, stdout)
}

// measureAll measures one part after another, and prints each one's table as soon as it is done. In a quick run they
// share one pair of servers.
func measureAll(ctx context.Context, root string, chosen []part, size sizes, stdout io.Writer) (results resultFile, err error) {
	binaries, err := os.MkdirTemp("", "outboxlab-bench-")
	if err != nil {
		return results, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(binaries)) }()
	if err := blackbox.Build(ctx, root, binaries); err != nil {
		return results, err
	}
	results.Parts = map[string]partResult{}
	groups := [][]part{chosen}
	if !size.shareServers {
		groups = nil
		for _, p := range chosen {
			groups = append(groups, []part{p})
		}
	}
	for _, group := range groups {
		if err := measureGroup(ctx, group, size, binaries, stdout, results.Parts); err != nil {
			return results, err
		}
	}
	return results, nil
}

func measureGroup(ctx context.Context, group []part, size sizes, binaries string, stdout io.Writer, into map[string]partResult) (err error) {
	r, err := openRig(ctx, group, size, binaries, stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close(context.WithoutCancel(ctx))) }()
	for _, p := range group {
		fmt.Fprintf(stdout, "\n%s: %s\nCompared with %s.\n", p.name, p.question, p.yardstick)
		began := time.Now()
		r.measures = nil
		if err := p.run(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		printTable(stdout, r.measures)
		into[p.name] = partResult{Yardstick: p.yardstick, Machine: r.machine, Date: began.UTC().Truncate(time.Second),
			Seconds: time.Since(began).Round(time.Second).Seconds(), Measures: r.measures}
	}
	return nil
}
