// Package service is what the three mains share: how a process starts, reads its configuration,
// logs, answers health checks, keeps a session alive and ends. It knows nothing of orders.
package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"example.com/outboxlab/pkg/printable"
)

// This file answers: how does a program begin and end, and with which exit code?

// Program is a whole program as a function, so that tests can call it. It returns nil when it did
// what it was asked to, also when that was "stop" (ctx ends on SIGTERM and SIGINT).
type Program func(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error

// OneShotTimeout bounds how long a command that runs once looks for its servers.
const OneShotTimeout = 10 * time.Second

// Exit codes of every command.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// UsageError is a mistake in the command line or the configuration, found before any connection
// is made. It ends the program with exit code 2.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }
func (e UsageError) Unwrap() error { return e.Err }

// Usagef makes a UsageError from a format.
func Usagef(format string, args ...any) error {
	return UsageError{fmt.Errorf(format, args...)}
}

// gcPercent lets the heap grow threefold between collections, unless GOGC says otherwise. The services
// keep a few MB and throw away much more, so that Go's own setting collects all the time.
const gcPercent = 200

// Run runs program with the process's own arguments and environment and returns its exit code. An
// error becomes one line on standard error. The first SIGTERM or SIGINT asks the program to stop;
// a second one ends the process at once, because the handler is gone by then.
func Run(name string, program Program) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}

	err := program(ctx, os.Args[1:], os.Getenv, os.Stdout)
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", name, printable.Sentence(err.Error()))
	if usage := (UsageError{}); errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}
