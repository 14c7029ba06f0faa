package servers

// Which way are the servers started on this machine?

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
)

// start is how one way starts a pair.
type start func(ctx context.Context, progress io.Writer) (runner, error)

// choose reads STACK; an empty answer means: docker if an engine answers, else native.
func choose() (Way, error) {
	switch way := Way(os.Getenv("STACK")); way {
	case "", Docker, Native, External:
		return way, nil
	default:
		return "", &UsageError{fmt.Sprintf("STACK=%s is unknown: it may be docker, native or external, or unset to let the machine decide", way)}
	}
}

// UsageError is a wrong setting, found before anything was started.
type UsageError struct{ text string }

func (e *UsageError) Error() string { return e.text }

// tryInOrder starts a pair the forced way, or docker first and native second.
func tryInOrder(ctx context.Context, progress io.Writer, forced Way, by map[Way]start) (*Pair, error) {
	if forced != "" {
		var r runner
		err := possible(ctx, forced)
		if err == nil {
			r, err = by[forced](ctx, progress)
		}
		if err != nil {
			return nil, fmt.Errorf("the %s way: %w", forced, err)
		}
		return &Pair{URLs: r.urls(), Way: forced, runner: r}, nil
	}

	noDocker := possible(ctx, Docker)
	if noDocker == nil {
		r, err := by[Docker](ctx, progress)
		if err == nil {
			return &Pair{URLs: r.urls(), Way: Docker, runner: r}, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		fmt.Fprintf(progress, "a Docker engine answers, but: %v\n", err)
		noDocker = err
	}

	if noNative := possible(ctx, Native); noNative != nil {
		return nil, noWayError(noDocker, noNative)
	}
	r, err := by[Native](ctx, progress)
	if err != nil {
		return nil, err
	}
	return &Pair{URLs: r.urls(), Way: Native, runner: r}, nil
}

// possible returns why a way cannot work on this machine, or nil.
func possible(ctx context.Context, way Way) error {
	if way == Docker {
		return engineAnswers(ctx)
	}
	return nativePossible()
}

// noWayError is the one message for a machine on which neither way works.
func noWayError(noDocker, noNative error) error {
	return fmt.Errorf(`no way to start PostgreSQL and RabbitMQ on this machine. One of these is needed:
  docker    a running Docker engine with compose (now: %s)
  native    Linux, as root (now: %s)
  external  servers of your own, PostgreSQL %d and RabbitMQ %s or newer: set STACK=external and DATABASE_URL, AMQP_URL, RABBITMQ_MANAGEMENT_URL`,
		firstLine(noDocker), firstLine(noNative), minPostgres/10000, minRabbitMQ)
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
