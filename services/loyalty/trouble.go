package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events"
	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/pkg/postgres"
)

// This file decides whether an award failed because of the database or because of the message. Most
// errors say so by themselves (postgres.BlameFor). A full disk or a cancelled query says that the server is
// in trouble, and costs the message nothing; but if only one message ever meets it, waiting would go on
// for ever. So there is a comparison: an order that is awarded between two failures of the message shows that
// the server works, and the second failure counts.

// serverError is an error that is not held against the message that met it.
type serverError struct{ error }

func (e serverError) Unwrap() error { return e.error }

func isServerError(err error) bool {
	_, ok := errors.AsType[serverError](err)
	return ok
}

// errDatabaseTrouble ends a session: while nothing can be awarded, this service should hold no messages.
var errDatabaseTrouble = errors.New("the database cannot award now")

// trouble is what the last message met that was given back because of the database.
type trouble struct{ err error }

func (t *trouble) Error() string { return fmt.Sprintf("%v: %v", errDatabaseTrouble, t.err) }

func (t *trouble) Unwrap() []error { return []error{errDatabaseTrouble, t.err} }

const (
	// troubleInARow is how many messages of a batch may meet trouble, one after the other, until the server is
	// believed to be in trouble for all.
	troubleInARow = 3
	// maxCompared is how many other messages are tried, at most, to find one that can be awarded.
	maxCompared = 16
	// longTrouble is after how many sessions that ended so, one after the other, the rehearsal decides alone: about four
	// minutes. Otherwise more messages than are compared, which only trouble of their own keeps from being awarded, would block the queue for ever.
	longTrouble = 50
)

// oneByOne awards the orders of a batch that the database has refused as a whole, so that an error stays
// with the message that met it. It tells how many messages it has come to: it ends early when ctx ends, or
// when nothing can be awarded.
func (c *Consumer) oneByOne(ctx context.Context, deliveries []delivery) (started int) {
	uninterrupted := context.WithoutCancel(ctx)
	var unclear []int // met trouble, and nothing has been awarded since
	for i := range deliveries {
		if ctx.Err() != nil {
			return i
		}
		_ = c.award(uninterrupted, deliveries[i:i+1])
		switch {
		case isServerError(deliveries[i].err):
			if unclear = append(unclear, i); len(unclear) == troubleInARow {
				return i + 1
			}
		case deliveries[i].awarded:
			for _, u := range unclear {
				c.tryAgain(uninterrupted, deliveries[u:u+1])
			}
			unclear = nil
		}
	}
	return len(deliveries)
}

// tryAgain is for a message that met trouble before another one was awarded. If it meets trouble again,
// that is its own.
func (c *Consumer) tryAgain(ctx context.Context, one []delivery) {
	_ = c.award(ctx, one)
	if own, ok := errors.AsType[serverError](one[0].err); ok {
		one[0].err = own.error
	}
}

// compare is for a message that met trouble and was the only one handled. The first time it goes back: most
// trouble is over soon. If the next session meets trouble as well, other messages are tried while this one
// is unacknowledged. If one of them can be awarded, this one is tried again, and counts.
func (c *Consumer) compare(ctx context.Context, ch *amqp.Channel, one []delivery) error {
	if c.inTrouble == 0 {
		return nil
	}
	works, err := c.othersWork(ctx, ch, min(c.inTrouble, maxCompared))
	if works {
		c.tryAgain(context.WithoutCancel(ctx), one)
	}
	return err
}

// othersWork tells whether the database awards what comes next in the queue, n messages at most. When the
// queue has no more, it is asked to award an order that does not exist. Those that fail in the same way are given back.
func (c *Consumer) othersWork(ctx context.Context, ch *amqp.Channel, n int) (works bool, err error) {
	var failed []delivery
	defer func() {
		for _, d := range failed {
			err = errors.Join(err, d.Nack(false, true))
		}
	}()
	for range n {
		d, found, err := ch.Get(topology.Queue, false)
		if err != nil {
			return false, err
		}
		next := []delivery{read(d)}
		if found && (next[0].suspect() || ctx.Err() != nil) { // one delivered before is handled alone or not at all
			failed = append(failed, next[0])
			found = false
		}
		if !found {
			return ctx.Err() == nil && rehearse(ctx, c.pool) == nil, nil
		}
		_ = c.award(context.WithoutCancel(ctx), next)
		if isServerError(next[0].err) {
			failed = append(failed, next[0])
			continue
		}
		if _, err := c.settle(context.WithoutCancel(ctx), next); err != nil || next[0].awarded {
			return err == nil, err
		}
	}
	return c.inTrouble >= longTrouble && rehearse(ctx, c.pool) == nil, nil
}

var errRehearsed = errors.New("rehearsed")

// rehearse does what Award does, for an order and a customer that nobody has, and takes it back: what one
// customer's or one order's award meets must not look like trouble for all. It returns an error if the server is in trouble. One that concerns the statement is for Award to meet.
func rehearse(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, handleTimeout)
	defer cancel()
	nobodys := events.OrderPlaced{OrderID: -1 - rand.Int64N(1<<62), CustomerID: 1<<62 + rand.Int64N(1<<62), TotalKZT: 100}
	m := Message{ID: uuid.New(), Order: nobodys}
	err := postgres.Tx(ctx, pool, func(tx pgx.Tx) error {
		if _, _, err := award(ctx, tx, []Message{m}); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SET CONSTRAINTS ALL IMMEDIATE`); err != nil { // what COMMIT would check
			return err
		}
		return errRehearsed
	})
	if errors.Is(err, errRehearsed) || postgres.BlameFor(err) == postgres.Statement {
		return nil
	}
	return err
}
