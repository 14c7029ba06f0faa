// Command up answers: how do I play with the three services by hand? It runs bin/orders, bin/relay
// and bin/loyalty on the servers that `go run ./scripts/stack up` brought up, each under its own
// database role, and shows their logs as one transcript. `make up` does all that comes before.
//
//	ctrl-C ends all three with SIGTERM and waits until they have settled what they had in hand.
//	A service that dies stays dead until it is started again: a crash is there to be looked at.
//	`go run ./scripts/up --stop` ends the services of another terminal (`make down` does).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"

	"golang.org/x/term"

	"example.com/outboxlab/pkg/service"
	"example.com/outboxlab/scripts/stack/servers"
)

// The first thread lives as long as the process, and only it starts services: they are told to end
// when the thread that started them does (see attributes_linux.go).
func init() { runtime.LockOSThread() }

func main() { os.Exit(service.Run("up", run)) }

func run(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	flags.SetOutput(stdout)
	stop := flags.Bool("stop", false, "end the services that another up runs, and wait for it")
	flags.Usage = func() {
		fmt.Fprintln(stdout, "Usage: go run ./scripts/up [--stop]   (in the repository's root; `make up` builds and migrates first)")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return service.UsageError{Err: err}
	}
	if flags.NArg() > 0 {
		return service.Usagef("takes no arguments (see --help)")
	}
	if *stop {
		return stopOther(ctx, lockFile, stdout)
	}

	urls, _, err := servers.Recorded(".")
	if err != nil {
		return err
	}
	lock, err := takeLock(lockFile)
	if err != nil {
		return err
	}
	defer lock.release()

	terminal := isTerminal(stdout)
	s := newStage(urls, newTranscript(stdout, terminal && getenv("NO_COLOR") == ""))
	if terminal && isTerminal(os.Stdin) {
		s.commands = readCommands(os.Stdin)
	}
	return s.play(ctx)
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
