// Command stack brings PostgreSQL and RabbitMQ up and down: `go run ./scripts/stack up`. Which servers those are, and
// how they run, is told in the package servers beside it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"example.com/outboxlab/pkg/printable"
	"example.com/outboxlab/scripts/stack/servers"
)

const description = `Brings PostgreSQL and RabbitMQ up, by Docker, from a Debian root file system (Linux, root), or as given.

Examples:
  go run ./scripts/stack up                      the main stack; its data is in .stack/
  eval "$(go run ./scripts/stack env orders)"    DATABASE_URL of the orders service's own role
  go run ./scripts/stack with -- go test ./...   servers of its own for one command
  STACK=native go run ./scripts/stack up         force a way: docker, native or external
  POSTGRES_PORT=5433 go run ./scripts/stack up   another port; also AMQP_PORT, RABBITMQ_MANAGEMENT_PORT
  STACK=external needs DATABASE_URL (may create databases and roles), AMQP_URL and RABBITMQ_MANAGEMENT_URL (may create
  vhosts) in the environment.`

type commands struct {
	Up     up     `cmd:"" help:"Start the main stack, or what of it does not run, and wait until both servers answer."`
	Down   down   `cmd:"" help:"End the main stack and remove its data."`
	Status status `cmd:"" help:"Tell what is recorded and whether it answers (exit code 0: both do)."`
	Env    env    `cmd:"" help:"Print export lines with the URLs: of the owner, or of one service."`
	With   with   `cmd:"" help:"Start a private pair of servers, run a command with TEST_DATABASE_URL, TEST_AMQP_URL and TEST_RABBITMQ_MANAGEMENT_URL, stop the pair."`
	Rootfs rootfs `cmd:"" help:"Print the path of the native root file system, building it first if needed."`
}

func main() {
	// The second ctrl-C ends the program at once: after the first, signals have their usual effect again.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program. It returns the exit code: 0 done, 1 failed, 2 wrong usage; `with` returns its command's.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var exited *int
	parser, err := kong.New(&commands{}, kong.Name("stack"), kong.Description(description),
		kong.Writers(stdout, stderr), kong.Exit(func(code int) { exited = &code }),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(terminal{stdout, stderr}))
	if err != nil {
		fmt.Fprintln(stderr, "stack:", err)
		return 1
	}
	command, err := parser.Parse(args)
	if exited != nil { // --help has been answered
		return *exited
	}
	if err == nil {
		err = command.Run()
	} else {
		err = usageError{err}
	}
	return exitCode(err, stderr)
}

// terminal is where a command prints: results to out, so that they can be captured, progress to err.
type terminal struct{ out, err io.Writer }

type usageError struct{ error }

func exitCode(err error, stderr io.Writer) int {
	var (
		finished commandError
		setting  *servers.UsageError
		usage    usageError
	)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &finished):
		return finished.code
	}
	fmt.Fprintln(stderr, "stack:", printable.Lines(err.Error()))
	if errors.As(err, &setting) || errors.As(err, &usage) {
		return 2
	}
	return 1
}
