package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/crash"
	"example.com/outboxlab/pkg/events"
	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/pkg/postgres"
)

// This file answers: what becomes of a message? One switch decides (settle). The broker tells two
// ways of giving a message back apart, and so does this code: reject(requeue) says "it failed", is
// counted and delayed; nack(requeue) says "not now", is free and immediate (facts 1.1). Messages
// come from session.go; from here the walk goes on to award.go.

// handleTimeout bounds the handling of one batch. A database that does not answer within it counts
// as unreachable.
const handleTimeout = 10 * time.Second

// handle awards the orders of a batch and settles it, and tells whether every message succeeded. A
// stop request does not interrupt what runs; the error ends the session.
func (c *Consumer) handle(ctx context.Context, ch *amqp.Channel, deliveries []delivery) (succeeded bool, err error) {
	uninterrupted := context.WithoutCancel(ctx)
	failed := c.award(uninterrupted, deliveries)
	started := len(deliveries)
	switch {
	case failed == nil:
	case len(deliveries) == 1 && isServerError(failed):
		err = c.compare(ctx, ch, deliveries)
	case len(deliveries) > 1 && !postgres.Unreachable(failed):
		// Something in the batch cannot be awarded, and nobody can tell what.
		started = c.oneByOne(ctx, deliveries)
	}
	if err != nil {
		return false, err
	}
	succeeded, err = c.settle(uninterrupted, deliveries[:started])
	return succeeded && started == len(deliveries), err
}

// award awards the orders of the deliveries that could be read, in one transaction, and leaves the
// outcome at each of them. Its error is the database's: all of them carry it, and at least one is to
// blame, unless it is a serverError.
func (c *Consumer) award(ctx context.Context, deliveries []delivery) error {
	ctx, cancel := context.WithTimeout(ctx, handleTimeout)
	defer cancel()
	var readable []*delivery
	var messages []Message
	for i := range deliveries {
		if d := &deliveries[i]; refusal(d.err) == "" {
			readable, messages = append(readable, d), append(messages, d.Message)
		}
	}
	if len(messages) == 0 {
		return nil
	}
	results, err := Award(ctx, c.pool, messages)
	if err != nil && postgres.BlameFor(err) != postgres.Statement {
		err = serverError{err}
	}
	for i, d := range readable {
		if d.err = err; err == nil {
			d.awarded, d.err = results[i].Awarded, results[i].Conflict
		}
	}
	return err
}

// settle is the decision. Deliveries are settled in the order in which they came; those that are
// done are acknowledged together at the end. Its error ends the session, which gives back what is not settled.
func (c *Consumer) settle(ctx context.Context, deliveries []delivery) (succeeded bool, err error) {
	done := make([]*delivery, 0, len(deliveries))
	var given *delivery // the first that is given back
	c.noteFailures(ctx, deliveries)
	c.metrics.consumed.Add(float64(len(deliveries)))
	for i := range deliveries {
		d, err := &deliveries[i], error(nil)
		switch {
		case refusal(d.err) != "": // no try will ever be better: to the DLQ, as it is
			detail := strings.TrimPrefix(d.err.Error(), refusal(d.err)+": ")
			c.say(d, slog.LevelWarn, "%s -> DLQ (%s)", refusal(d.err), detail)
			c.metrics.rejected.Inc()
			if errors.Is(d.err, errConflict) {
				c.metrics.conflicts.Inc()
			}
			err = d.Reject(false)

		case d.err == nil && d.awarded:
			c.say(d, slog.LevelDebug, "order %d: +%d points", d.Order.OrderID, d.Order.Points())
			c.metrics.awarded.Inc()
			c.metrics.observeAward(d)
			done = append(done, d)

		case d.err == nil: // done before; the acknowledgement did not reach the broker, or it was sent twice
			c.say(d, slog.LevelDebug, "duplicate, skipped")
			c.metrics.duplicates.Inc()
			done = append(done, d)

		case isServerError(d.err): // not the message's fault: it goes back, free, until the database works
			c.say(d, slog.LevelDebug, "given back: %v", d.err)
			if given == nil {
				given = d
			}

		default: // counted, delayed, and after the limit dead-lettered by the broker; never a nack
			c.say(d, slog.LevelWarn, "failed: %s", reason(d.err))
			if d.failures() < topology.DeliveryLimit {
				c.metrics.retried.Inc()
			} else {
				c.metrics.dead.Inc()
			}
			err = d.Reject(true)
		}
		if err != nil {
			return false, err
		}
	}
	if err := c.acknowledge(done, given == nil); err != nil {
		return false, err
	}
	if given != nil {
		return false, &trouble{given.err}
	}
	return len(done) == len(deliveries), nil
}

// acknowledge settles the deliveries that are done, together with one call. It covers everything up to the
// last of them, which is right because batches are handled in the order of their delivery: whatever
// is older has been settled, and what was rejected in between was so before. Otherwise one by one.
func (c *Consumer) acknowledge(done []*delivery, together bool) error {
	if len(done) == 0 {
		return nil
	}
	orders := make([]string, len(done))
	for i, d := range done {
		orders[i] = d.orderID()
	}
	crash.At(crash.LoyaltyBeforeAck, orders...)
	if !together || len(done) == 1 { // a message that is alone may have been fetched past an older one (othersWork)
		for _, d := range done {
			if err := d.Ack(false); err != nil {
				return err
			}
		}
	} else if err := done[len(done)-1].Ack(true); err != nil {
		return err
	}
	crash.At(crash.LoyaltyAfterAck, orders...)
	return nil
}

// say logs what became of a message, under its short id.
func (c *Consumer) say(d *delivery, level slog.Level, format string, args ...any) {
	if !c.log.Enabled(context.Background(), level) {
		return
	}
	name := "message without id"
	if d.ID != uuid.Nil {
		name = events.ShortID(d.ID)
	}
	if d.Redelivered {
		name += " (redelivered)"
	}
	what := fmt.Sprintf(format, args...)
	c.log.Log(context.Background(), level, name+" "+what, "event", d.MessageId, "redelivered", d.Redelivered,
		"deliveries_failed", d.Headers["x-delivery-count"], "what", what)
}
