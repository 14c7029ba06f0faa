package main

// How does one command get servers of its own, and how are they gone after it, however it ends?

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"example.com/outboxlab/scripts/stack/servers"
)

// grace is how long a command that is asked to stop may take before it is killed.
const grace = 20 * time.Second

type with struct {
	Command []string `arg:"" passthrough:"" help:"The command, after --."`
}

// commandError carries the command's own exit code out; the command has said itself what went wrong.
type commandError struct{ code int }

func (e commandError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

func (w with) Run(ctx context.Context, t terminal) (err error) {
	command := w.Command
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	if len(command) == 0 {
		return usageError{errors.New("with: a command is missing, as in `with -- go test ./...`")}
	}

	began := time.Now()
	pair, err := servers.StartPrivate(ctx, t.err)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pair.Stop(context.WithoutCancel(ctx))) }()
	fmt.Fprintf(t.err, "private servers are up (%s, %.1f s)\n", pair.Way, time.Since(began).Seconds())

	return runCommand(ctx, command, pair)
}

// runCommand runs the command in our terminal. On ctrl-C it gets the signal from the terminal like we do; asked to
// stop in another way, we hand the request on.
func runCommand(ctx context.Context, command []string, pair *servers.Pair) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(),
		"TEST_DATABASE_URL="+pair.URLs.Database, "TEST_AMQP_URL="+pair.URLs.AMQP, "TEST_RABBITMQ_MANAGEMENT_URL="+pair.URLs.Management,
		"STACK="+string(pair.Way)) // for pairs that the command itself starts
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace

	err := cmd.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		if code := ended.ExitCode(); code > 0 {
			return commandError{code}
		}
		return commandError{1} // ended by a signal
	}
	return err
}
