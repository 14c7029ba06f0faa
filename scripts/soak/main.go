// Command soak runs the tests again and again while the machine is kept busy. Passing once on a machine with nothing else to
// do proves little: a limit that is too tight, or a moment that is hit by luck, shows when others want the processor too.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"time"

	"example.com/outboxlab/pkg/service"
)

func main() { os.Exit(service.Run("soak", run)) }

// CLI is the command line.
type CLI struct {
	Run struct {
		Runs    int    `default:"5" help:"How often (${default})."`
		Load    int    `default:"3" help:"Busy loops beside the tests (${default})."`
		Cold    bool   `help:"An empty build cache for each run, as on a machine that has never seen the repository."`
		Stories bool   `help:"Only the failure stories: --pkg ./scripts/scenario --run TestScenarios."`
		Pkg     string `default:"./..." help:"Packages (${default})."`
		Run     string `help:"Only tests that match, as with go test -run."`
		Logs    string `help:"Where the output of each run goes (a new temporary directory)."`
	} `cmd:"" default:"withargs" help:"Run the tests again and again, on a busy machine."`
}

const examples = `Examples:
  make soak                                     the whole suite, five times, beside three busy loops
  go run ./scripts/soak --cold                  the same, each time from an empty build cache
  go run ./scripts/soak --stories --runs 10     the failure stories, ten times
  go run ./scripts/soak --pkg ./services/relay --run Order --load 8

Exit code: 0 every run passed, 1 one failed (its log is named), 2 wrong usage.`

func run(ctx context.Context, args []string, _ func(string) string, stdout io.Writer) error {
	var cli CLI
	command, err := service.ParseArgs("soak", "Runs the tests again and again, on a busy machine.", examples, &cli, args, stdout)
	if err != nil || command == "" {
		return err
	}
	o := cli.Run
	if o.Runs < 1 || o.Load < 0 {
		return service.Usagef("--runs must be 1 or more, and --load 0 or more")
	}
	if o.Stories {
		o.Pkg, o.Run = "./scripts/scenario", "TestScenarios"
	}
	if o.Logs == "" {
		if o.Logs, err = os.MkdirTemp("", "outboxlab-soak-"); err != nil {
			return err
		}
	} else if err := os.MkdirAll(o.Logs, 0o755); err != nil {
		return err
	}
	keepBusy(o.Load)
	failed := 0
	for n := range o.Runs {
		log := filepath.Join(o.Logs, fmt.Sprintf("run-%d.log", n+1))
		fmt.Fprintf(stdout, "run %d of %d, beside %d busy loops: %s\n", n+1, o.Runs, o.Load, log)
		began := time.Now()
		err := once(ctx, o.Cold, o.Pkg, o.Run, log)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		verdict := "passed"
		if err != nil {
			failed++
			verdict = fmt.Sprintf("FAILED (%v): %s", err, log)
			tellFailures(stdout, log)
		}
		fmt.Fprintf(stdout, "run %d of %d %s, after %.0f s\n", n+1, o.Runs, verdict, time.Since(began).Seconds())
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d runs failed", failed, o.Runs)
	}
	return nil
}

// keepBusy starts n loops that want a processor each, until this program ends.
func keepBusy(n int) {
	runtime.GOMAXPROCS(n + 1) // one is for what this program itself does
	for range n {
		go func() {
			for i := 0; ; i++ {
				runtime.KeepAlive(i)
			}
		}()
	}
}

// once runs `make test`, servers of its own included, with its output in the file log.
func once(ctx context.Context, cold bool, pkg, tests, log string) (err error) {
	file, err := os.Create(log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	flags := "-count=1"
	if tests != "" {
		flags += " -run '" + tests + "'"
	}
	cmd := exec.CommandContext(ctx, "make", "--no-print-directory", "test", "PKG="+pkg, "TESTFLAGS="+flags)
	cmd.Stdout, cmd.Stderr = file, file
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if cold {
		cache, err := os.MkdirTemp("", "outboxlab-gocache-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(cache) }()
		cmd.Env = append(os.Environ(), "GOCACHE="+cache)
	}
	return cmd.Run()
}

// failure is a line that names what failed.
var failure = regexp.MustCompile(`(?m)^( *--- FAIL|FAIL\t|panic:|make: \*\*\*).*$`)

func tellFailures(stdout io.Writer, log string) {
	text, err := os.ReadFile(log)
	if err != nil {
		fmt.Fprintln(stdout, " ", err)
	}
	for _, line := range failure.FindAll(text, -1) {
		fmt.Fprintf(stdout, "  %s\n", line)
	}
}
