// Command check answers: does the repository still keep its own rules? Linters know Go; these are
// the rules only this project has. Each is one small file here, with a test that shows it red.
//
//	go run ./scripts/check            look, list what is wrong, exit 1 if anything is
//	go run ./scripts/check --write    write generated pages (docs/configuration.md) again, then look
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"

	"example.com/outboxlab/pkg/service"
)

// finding is one place that breaks a rule; line 0 means the file as a whole, file "" the repository.
type finding struct {
	file string
	line int
	what string
}

func (f finding) String() string {
	switch {
	case f.file == "":
		return f.what
	case f.line == 0:
		return f.file + ": " + f.what
	default:
		return fmt.Sprintf("%s:%d: %s", f.file, f.line, f.what)
	}
}

// rule is one promise of the repository. check reads files and returns every place that breaks it;
// its error means that the rule could not be judged, e.g. a file that does not parse.
type rule struct {
	promise string
	check   func(files fs.FS) ([]finding, error)
}

var rules = []rule{
	{"packages import only what their place allows", checkImports},
	{"docs/walkthrough.md walks the files in the design's order", checkWalkthrough},
	{"every crash point is used by a scenario and told in docs/guarantees.md", checkCrashPoints},
	{"docs/configuration.md says what the structs say", checkConfiguration},
	{"relative links in Markdown lead somewhere", checkLinks},
}

func main() { os.Exit(service.Run("check", run)) }

func run(_ context.Context, args []string, _ func(string) string, stdout io.Writer) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(stdout)
	write := flags.Bool("write", false, "write generated pages again before looking")
	flags.Usage = func() {
		fmt.Fprintln(stdout, "Usage: go run ./scripts/check [--write]   (in the repository's root)\n\nIt checks that")
		for _, r := range rules {
			fmt.Fprintln(stdout, "  - "+r.promise)
		}
		fmt.Fprintln(stdout)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return service.UsageError{Err: err}
	}
	if _, err := os.Stat("go.mod"); err != nil || flags.NArg() > 0 {
		return service.Usagef("takes no arguments and runs in the repository's root (see --help)")
	}
	if *write {
		if err := writeConfiguration(os.DirFS("."), configurationPage); err != nil {
			return err
		}
	}
	return judge(os.DirFS("."), rules, stdout)
}

// judge prints one line a rule and what it found; the error counts the broken rules.
func judge(files fs.FS, rules []rule, stdout io.Writer) error {
	broken := 0
	for _, r := range rules {
		found, err := r.check(files)
		if err != nil {
			found = append(found, finding{what: "cannot be judged: " + err.Error()})
		}
		mark := "✔"
		if len(found) > 0 {
			mark, broken = "✘", broken+1
		}
		fmt.Fprintln(stdout, mark, r.promise)
		for _, f := range found {
			fmt.Fprintln(stdout, "   ", f)
		}
	}
	if broken > 0 {
		return fmt.Errorf("%d of %d rules broken", broken, len(rules))
	}
	return nil
}
