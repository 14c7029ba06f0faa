// Package servers answers: where do PostgreSQL and RabbitMQ come from?
//
// There are three ways, chosen in choose.go: "docker" (containers), "native" (Linux as root: both servers run from a
// Debian root file system that is built once, rootfs.go) and "external" (given by the environment, never touched).
//
// And there are two kinds of pairs of servers. The main stack (stack.go) is brought up and down by hand, is recorded in
// .stack/ and outlives the command that started it. A private pair (StartPrivate) belongs to one test run or one
// scenario, has free ports and throw-away data, and dies with the process that started it.
package servers

import (
	"context"
	"errors"
	"io"
)

// The accounts of both kinds of pairs; they open on loopback only.
const (
	user     = "outboxlab"
	password = "outboxlab"
	database = "outboxlab"
)

// URLs say where one PostgreSQL and one RabbitMQ answer, with accounts that may create databases, roles and vhosts.
type URLs struct {
	Database   string `json:"database"`   // postgres://user:password@127.0.0.1:PORT/outboxlab?sslmode=disable
	AMQP       string `json:"amqp"`       // amqp://user:password@127.0.0.1:PORT/
	Management string `json:"management"` // http://user:password@127.0.0.1:PORT, RabbitMQ's HTTP API
}

// Way names where a pair comes from.
type Way string

// The three ways; the value of the variable STACK forces one.
const (
	Docker   Way = "docker"
	Native   Way = "native"
	External Way = "external"
)

// ErrNotOurs is returned when a server given by STACK=external should be restarted or commanded.
var ErrNotOurs = errors.New("these servers were given by STACK=external; they are used, but never restarted or stopped")

// Pair is one running PostgreSQL and one running RabbitMQ.
type Pair struct {
	URLs URLs
	Way  Way

	runner runner
}

// runner is what a way must be able to do with a pair that it started.
type runner interface {
	urls() URLs
	stop(ctx context.Context) error
	restartPostgres(ctx context.Context) error
	restartRabbitMQ(ctx context.Context) error
	rabbitmqctl(ctx context.Context, args ...string) (string, error)
}

// StartPrivate starts a pair of servers of the caller's own, on free ports and with empty data, and returns when both
// answer: about 7 s, and minutes the very first time (progress says why). The caller must Stop it; should the caller
// die first, also by SIGKILL, the native servers die with it.
func StartPrivate(ctx context.Context, progress io.Writer) (*Pair, error) {
	way, err := choose()
	if err != nil {
		return nil, err
	}
	if way == External {
		return startExternal(ctx)
	}
	if _, main, err := Recorded("."); way == "" && err == nil && main == Native {
		way = Native // `up` has found that containers do not work here; finding out again may take a while
	}
	return tryInOrder(ctx, progress, way, map[Way]start{Docker: startContainers, Native: startPrivateNative})
}

// Stop ends both servers at once and removes their data.
func (p *Pair) Stop(ctx context.Context) error { return p.runner.stop(ctx) }

// RestartPostgres kills PostgreSQL as a power cut would and starts it again: same port, same data, after crash
// recovery. It returns when the server answers.
func (p *Pair) RestartPostgres(ctx context.Context) error { return p.runner.restartPostgres(ctx) }

// RestartRabbitMQ kills RabbitMQ as a power cut would and starts it again: same ports, same data. It returns when the
// server answers. A quorum queue declared less than about a second before comes back empty, with all its confirmed
// messages lost: RabbitMQ 4.3 writes the queue's entry in its names.dets that late.
func (p *Pair) RestartRabbitMQ(ctx context.Context) error { return p.runner.restartRabbitMQ(ctx) }

// Rabbitmqctl runs rabbitmqctl against the pair's node and returns what it printed. It takes one to two seconds.
func (p *Pair) Rabbitmqctl(ctx context.Context, args ...string) (string, error) {
	return p.runner.rabbitmqctl(ctx, args...)
}
