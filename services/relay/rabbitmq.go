package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/crash"
	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/pkg/rabbitmq"
)

// This file answers: when has RabbitMQ taken an event? When it has confirmed that very message and
// has not returned it. A confirm alone is not enough: a message that no queue is bound for is
// confirmed as well, after it has been returned to whoever asked for that (mandatory). From here
// the walk goes on to pkg/events/topology.

// maxReturns is room for one return per event of the largest batch: the client library waits for
// a listener that does not read, 5 s each (facts 2.3).
const maxReturns = 10_000

// rabbit is a Transport: one connection with one channel in confirm mode.
type rabbit struct {
	conn    *amqp.Connection
	ch      *amqp.Channel
	returns chan amqp.Return
	broken  chan struct{} // closed with the channel, whose end is the session's
	timeout time.Duration // for all confirms of a batch
}

var (
	errUnroutable = errors.New("unroutable: no queue is bound for it")
	errRefused    = errors.New("refused by the broker")
	errUnknown    = errors.New("not confirmed: the broker may or may not have it")
)

// openRabbitMQ connects and declares the topology, so that the first event has a queue to go to
// even if no consumer has ever run.
func openRabbitMQ(ctx context.Context, u rabbitmq.URL, timeout time.Duration) (Transport, error) {
	conn, ch, err := rabbitmq.Open(ctx, u, "relay", func(ch *amqp.Channel) error {
		if err := topology.Declare(ch); err != nil {
			return err
		}
		return ch.Confirm(false)
	})
	if err != nil {
		return nil, err
	}
	r := &rabbit{conn: conn, ch: ch, timeout: timeout, broken: make(chan struct{})}
	r.returns = ch.NotifyReturn(make(chan amqp.Return, maxReturns))
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	go func() {
		_ = <-closed // why is told by whoever was using the channel
		close(r.broken)
	}()
	return r, nil
}

func (r *rabbit) Broken() <-chan struct{} { return r.broken }
func (r *rabbit) Close()                  { rabbitmq.Close(r.conn) }

// Publish sends the whole batch before it waits for the first confirm: the broker writes them to
// disk together. Returns are matched to events by message id.
func (r *rabbit) Publish(ctx context.Context, batch []Event) ([]error, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	results := make([]error, len(batch))
	for i := range results {
		results[i] = errUnknown
	}
	confirms, broken := r.send(ctx, batch)
	for i, confirm := range confirms {
		acked, err := confirm.WaitContext(ctx)
		switch {
		case err != nil:
			broken = errors.Join(broken, fmt.Errorf("no confirm within %v", r.timeout))
			return r.markReturned(batch, results), broken
		case acked:
			results[i] = nil
		case r.ch.IsClosed():
			// A lost channel completes what it had pending as "not acked": unknown, not refused.
		default:
			results[i] = errRefused
		}
	}
	if broken == nil && r.ch.IsClosed() {
		broken = errors.New("session closed by the broker")
	}
	return r.markReturned(batch, results), broken
}

// send publishes the events one after the other; on an error the rest is not sent.
func (r *rabbit) send(ctx context.Context, batch []Event) ([]*amqp.DeferredConfirmation, error) {
	confirms := make([]*amqp.DeferredConfirmation, 0, len(batch))
	for _, e := range batch {
		const mandatory, immediate = true, false
		confirm, err := r.ch.PublishWithDeferredConfirmWithContext(ctx, topology.Exchange, e.Type, mandatory, immediate, message(e))
		if err != nil {
			return confirms, fmt.Errorf("publish: %w", err)
		}
		confirms = append(confirms, confirm)
		crash.At(crash.RelayMidBatch, e.AggregateID)
	}
	return confirms, nil
}

// markReturned turns the result of every event that came back into errUnroutable. The broker sends
// a return before the confirm of the same message, and the library hands them out in that order,
// so after the last confirm all returns are in the buffer (facts 2.3).
func (r *rabbit) markReturned(batch []Event, results []error) []error {
	returned := map[string]bool{}
	for len(r.returns) > 0 {
		returned[(<-r.returns).MessageId] = true
	}
	for i, e := range batch {
		if returned[e.EventID.String()] {
			results[i] = errUnroutable
		}
	}
	return results
}

// message is an event as the contract has it on the wire.
func message(e Event) amqp.Publishing {
	headers := amqp.Table{
		"x-event-version":  int64(e.Version),
		"x-aggregate-type": e.AggregateType,
		"x-aggregate-id":   e.AggregateID,
		"x-tenant-id":      e.TenantID,
		// The timestamp property has whole seconds only.
		"x-event-time": e.CreatedAt.UTC().Format("2006-01-02T15:04:05.000000Z07:00"),
	}
	if e.Traceparent != "" {
		headers["traceparent"] = e.Traceparent
	}
	return amqp.Publishing{
		MessageId:    e.EventID.String(),
		Type:         e.Type,
		ContentType:  "application/json",
		DeliveryMode: amqp.Persistent,
		Timestamp:    e.CreatedAt,
		Headers:      headers,
		Body:         e.Payload,
	}
}
