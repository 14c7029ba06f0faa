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

// rabbit is a Transport: one connection with one channel in confirm mode.
type rabbit struct {
	conn    *amqp.Connection
	ch      *amqp.Channel
	returns chan amqp.Return
	blocked chan amqp.Blocking
	broken  chan struct{} // closed with the channel, whose end is the session's
	reason  *amqp.Error   // why, valid once broken is closed; nil if the connection was just gone
	timeout time.Duration // for all confirms of a batch
}

// openRabbitMQ connects and declares the topology, so that the first event has a queue to go to
// even if no consumer has ever run. inFlight is the most events that will be under way together;
// timeout bounds each Publish.
func openRabbitMQ(ctx context.Context, u rabbitmq.URL, timeout time.Duration, inFlight int) (Transport, error) {
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
	// Room for a return of every event under way: the client library waits for a listener that does
	// not read, 5 s each, and then drops the return (facts 2.3).
	r.returns = ch.NotifyReturn(make(chan amqp.Return, inFlight))
	r.blocked = conn.NotifyBlocked(make(chan amqp.Blocking, 1))
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	go func() {
		r.reason = <-closed
		close(r.broken)
	}()
	return r, nil
}

func (r *rabbit) Broken() <-chan struct{} { return r.broken }
func (r *rabbit) Close()                  { rabbitmq.Close(r.conn) }

// sent is an event under way.
type sent struct {
	index   int
	confirm *amqp.DeferredConfirmation
}

// Publish keeps as many events under way as the window and their order allow, so that the broker
// writes them to disk together, and takes the confirms in the order of sending.
func (r *rabbit) Publish(ctx context.Context, batch []Event, window int) ([]error, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	l := newLanes(batch)
	var underWay []sent
	for {
		for len(underWay) < window {
			i, ok := l.next()
			if !ok {
				break
			}
			confirm, err := r.send(ctx, batch[i])
			if attempt := (*attemptError)(nil); errors.As(err, &attempt) {
				l.done(i, attempt)
				continue
			}
			if err != nil {
				return r.giveUp(l, underWay, fmt.Errorf("publish: %w", err))
			}
			underWay = append(underWay, sent{i, confirm})
			crash.At(crash.RelayMidBatch, batch[i].AggregateID)
		}
		if len(underWay) == 0 {
			return l.results, nil
		}
		if err := r.await(ctx, underWay[0].confirm); err != nil {
			return r.giveUp(l, underWay, err)
		}
		l.done(underWay[0].index, r.fate(batch[underWay[0].index], underWay[0].confirm))
		underWay = underWay[1:]
	}
}

// send hands one event to the client library, unless it cannot be sent at all.
func (r *rabbit) send(ctx context.Context, e Event) (*amqp.DeferredConfirmation, error) {
	if e.Payload == nil {
		return nil, &attemptError{"oversize", fmt.Sprintf("payload of %d bytes is above the limit of %d", e.Size, maxPayload)}
	}
	m := message(e)
	if err := m.Headers.Validate(); err != nil {
		return nil, &attemptError{"unencodable", err.Error()}
	}
	if len(e.Type) > maxShortString {
		return nil, &attemptError{"unencodable", fmt.Sprintf("event type of %d bytes: a routing key has at most %d", len(e.Type), maxShortString)}
	}
	const mandatory, immediate = true, false
	return r.ch.PublishWithDeferredConfirmWithContext(ctx, topology.Exchange, e.Type, mandatory, immediate, m)
}

// maxShortString is the most bytes that AMQP 0-9-1 has room for in a routing key or property.
const maxShortString = 255

// await waits for one confirm, as long as the session and the time last. A broker under an alarm
// says that it blocks the connection, and confirms nothing until the alarm is over.
func (r *rabbit) await(ctx context.Context, confirm *amqp.DeferredConfirmation) error {
	select {
	case <-confirm.Done():
		if !confirm.Acked() && r.ch.IsClosed() {
			return errors.New("session ended by the broker") // what was pending completes as "not acked"
		}
		return nil
	case b, open := <-r.blocked:
		if open && b.Active {
			return fmt.Errorf("blocked by the broker: %s alarm", b.Reason)
		}
		return errors.New("session ended by the broker")
	case <-ctx.Done():
		return fmt.Errorf("no confirm within %v", r.timeout)
	}
}

// fate is the result of an event whose confirm has come. The broker sends a return before the
// confirm of the same message, and the library hands them out in that order, so a return is in the
// buffer by now (facts 2.3); and since nobody else reads it, it is found by the message's id.
func (r *rabbit) fate(e Event, confirm *amqp.DeferredConfirmation) error {
	if r.wasReturned(e.EventID.String()) {
		return &attemptError{"returned", "unroutable: no queue is bound for " + e.Type}
	}
	if !confirm.Acked() {
		return &attemptError{"nacked", "refused by the broker"}
	}
	return nil
}

// wasReturned looks through the returns that have come; those of other events stay for their turn.
func (r *rabbit) wasReturned(messageID string) bool {
	for range len(r.returns) {
		returned, open := <-r.returns
		if !open {
			return false
		}
		if returned.MessageId == messageID {
			return true
		}
		r.returns <- returned
	}
	return false
}

// giveUp ends a Publish whose session is no good any more. What has been confirmed meanwhile still
// counts; of the others, an event is to blame in two cases only: the broker closed the channel over
// it while it was the only one under way, or it confirmed an event sent later but not this one.
func (r *rabbit) giveUp(l *lanes, underWay []sent, cause error) ([]error, error) {
	laterConfirmed := false
	for n := len(underWay) - 1; n >= 0; n-- {
		u := underWay[n]
		select {
		case <-u.confirm.Done():
			if u.confirm.Acked() {
				l.done(u.index, r.fate(l.batch[u.index], u.confirm))
				laterConfirmed = true
			}
		default:
			if laterConfirmed {
				l.done(u.index, &attemptError{"timeout", "not confirmed, while later events were"})
			}
		}
	}
	if e := r.closedOver(); e != nil {
		if len(underWay) == 1 && l.results[underWay[0].index] == errUnknown {
			l.done(underWay[0].index, &attemptError{"refused", "the broker closed the channel: " + e.Reason})
		}
		return l.results, &channelError{e}
	}
	return l.results, cause
}

// closedOver is the error with which the broker has closed the channel alone: it speaks of
// something that was sent, not of the connection. Nil if it has not.
func (r *rabbit) closedOver() *amqp.Error {
	select {
	case <-r.broken:
		if r.reason != nil && r.reason.Server && r.reason.Recover { // "soft" errors, in AMQP's words
			return r.reason
		}
	default:
	}
	return nil
}

// channelError ends a session in which one event made the broker close the channel. The next
// session sends one event at a time, so that it is known which.
type channelError struct{ cause *amqp.Error }

func (e *channelError) Error() string { return "the broker closed the channel: " + e.cause.Reason }

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
