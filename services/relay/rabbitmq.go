package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/crash"
	"example.com/outboxlab/pkg/events"
	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/pkg/rabbitmq"
)

// This file answers: when has RabbitMQ taken an event? When it has confirmed that very message and
// has not returned it. A confirm alone is not enough: a message that no queue is bound for is
// confirmed as well, after it has been returned to whoever asked for that (mandatory). From here
// the walk goes on to pkg/events/topology.

// rabbit is a Transport: one connection with one channel in confirm mode.
type rabbit struct {
	conn    *rabbitmq.Conn
	ch      *amqp.Channel
	returns chan amqp.Return
	// returned are the message ids of returns taken from the channel, whose confirm has not come yet.
	returned map[string]struct{}
	blocked  chan amqp.Blocking
	timeout  time.Duration // for all confirms of a batch
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
	r := &rabbit{conn: conn, ch: ch, timeout: timeout, returned: map[string]struct{}{}}
	// Room for a return of every event under way: the client library waits for a listener that does
	// not read, 5 s each, and then drops the return (facts 2.3).
	r.returns = ch.NotifyReturn(make(chan amqp.Return, inFlight))
	r.blocked = conn.NotifyBlocked(make(chan amqp.Blocking, 16))
	return r, nil
}

func (r *rabbit) Broken() <-chan struct{} { return r.conn.Ended() }
func (r *rabbit) Why() error              { return r.conn.Explain(rabbitmq.ErrEnded) }
func (r *rabbit) Close()                  { r.conn.Close() }

// sent is an event under way.
type sent struct {
	index   int
	at      time.Time
	confirm *amqp.DeferredConfirmation
}

// Publish keeps as many events under way as the window and their order allow, so that the broker
// writes them to disk together, and takes the confirms in the order of sending. It sends during the
// first half of its time, so that every event sent has at least the other half to be confirmed;
// what has not been sent by then is for the next batch, and no sign of trouble.
func (r *rabbit) Publish(ctx context.Context, batch []Event, window int) ([]error, error) {
	started := time.Now()
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	// A write to a broker that has stopped reading waits, and looks at no context.
	stuck := time.AfterFunc(r.timeout+time.Second, func() { _ = r.conn.CloseDeadline(time.Now()) })
	defer stuck.Stop()
	l := newLanes(batch)
	var underWay []sent
	for {
		before := len(underWay)
		err := r.conn.Together(func() (err error) {
			for len(underWay) < window && err == nil && time.Since(started) < r.timeout/2 {
				i, ok := l.next()
				if !ok {
					break
				}
				underWay, err = r.sendNext(ctx, l, i, underWay)
			}
			return err
		})
		if err != nil {
			return r.giveUp(l, underWay, fmt.Errorf("publish: %w", r.conn.Explain(err)))
		}
		for _, s := range underWay[before:] {
			crash.At(crash.RelayMidBatch, batch[s.index].AggregateID)
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

// sendNext sends the batch's event i and adds it to those under way, unless it is one that cannot be sent.
func (r *rabbit) sendNext(ctx context.Context, l *lanes, i int, underWay []sent) ([]sent, error) {
	confirm, err := r.send(ctx, l.batch[i])
	if attempt := (*attemptError)(nil); errors.As(err, &attempt) {
		l.done(i, attempt)
		return underWay, nil
	}
	if err != nil {
		return underWay, err
	}
	l.results[i] = errUnknown
	return append(underWay, sent{i, time.Now(), confirm}), nil
}

const (
	// maxShortString is the most bytes that AMQP 0-9-1 has room for in a routing key or property.
	maxShortString = 255
	// maxHeaders bounds the texts that become headers, in bytes. All headers of a message go into one
	// frame of 128 KiB; one that does not fit ends the whole connection.
	maxHeaders = 64 << 10
)

// send hands one event to the client library, unless it cannot be sent at all.
func (r *rabbit) send(ctx context.Context, e Event) (*amqp.DeferredConfirmation, error) {
	if e.Payload == nil {
		return nil, &attemptError{"oversize", fmt.Sprintf("payload of %d bytes is above the limit of %d", e.Size, maxPayload)}
	}
	if len(e.Type) > maxShortString {
		return nil, &attemptError{"unencodable", fmt.Sprintf("event type of %d bytes: a routing key has at most %d", len(e.Type), maxShortString)}
	}
	if n := len(e.AggregateType) + len(e.AggregateID) + len(e.TenantID) + len(e.Traceparent); n > maxHeaders {
		return nil, &attemptError{"unencodable", fmt.Sprintf("headers of %d bytes are above the limit of %d", n, maxHeaders)}
	}
	const mandatory, immediate = true, false
	return r.ch.PublishWithDeferredConfirmWithContext(ctx, topology.Exchange, e.Type, mandatory, immediate, message(e))
}

// await waits for one confirm, as long as the session and the time last. A broker under an alarm
// says that it blocks the connection, and confirms nothing until the alarm is over.
func (r *rabbit) await(ctx context.Context, confirm *amqp.DeferredConfirmation) error {
	for {
		select {
		case <-confirm.Done():
			if !confirm.Acked() && r.ch.IsClosed() {
				return r.Why() // what was pending completes as "not acked"
			}
			return nil
		case b, open := <-r.blocked:
			if !open {
				return r.Why()
			}
			if b.Active {
				return fmt.Errorf("blocked by the broker: %s", b.Reason)
			}
		case <-ctx.Done():
			return fmt.Errorf("no confirm within %v", r.timeout)
		}
	}
}

// fate is the result of an event whose confirm has come. The broker sends a return before the
// confirm of the same message, and the library hands them out in that order, so a return is in the
// buffer by now (facts 2.3); and since nobody else reads it, it is found by the message's id.
func (r *rabbit) fate(e Event, confirm *amqp.DeferredConfirmation) error {
	for len(r.returns) > 0 {
		back := <-r.returns
		r.returned[back.MessageId] = struct{}{}
	}
	if len(r.returned) > 0 {
		id := e.EventID.String()
		if _, back := r.returned[id]; back {
			delete(r.returned, id)
			return &attemptError{"returned", "unroutable: no queue is bound for " + e.Type}
		}
	}
	if !confirm.Acked() {
		return &attemptError{"nacked", "refused by the broker"}
	}
	return nil
}

// giveUp ends a Publish whose session is no good any more. What has been confirmed meanwhile still
// counts. Of the others, an event is to blame in two cases only: the broker ended the session over
// it while it was the only one under way; or it had half of the time to be confirmed and was not,
// while an event sent later was.
func (r *rabbit) giveUp(l *lanes, underWay []sent, cause error) ([]error, error) {
	laterConfirmed := false
	for _, u := range slices.Backward(underWay) {
		select {
		case <-u.confirm.Done():
			if u.confirm.Acked() {
				l.done(u.index, r.fate(l.batch[u.index], u.confirm))
				laterConfirmed = true
			}
		default:
			if laterConfirmed && time.Since(u.at) >= r.timeout/2 {
				l.done(u.index, &attemptError{"timeout", "not confirmed, while later events were"})
			}
		}
	}
	if e := r.offended(); e != nil {
		if len(underWay) == 1 && errors.Is(l.results[underWay[0].index], errUnknown) {
			l.done(underWay[0].index, &attemptError{"refused", "refused by the broker: " + e.Reason})
		}
		return l.results, &channelError{e}
	}
	return l.results, cause
}

// offended is the error with which the broker has ended the session over something that was sent.
// Nil if it is still up, or was ended for another reason: a missing exchange or permission, say,
// concerns all events alike. A topic permission, though, is one for some event types only.
func (r *rabbit) offended() *amqp.Error {
	reason := r.conn.Reason()
	if reason == nil || !reason.Server {
		return nil
	}
	switch reason.Code {
	case amqp.PreconditionFailed, // e.g. a message above the broker's own size limit
		amqp.ContentTooLarge, amqp.FrameError, amqp.SyntaxError:
		return reason
	case amqp.AccessRefused:
		if strings.Contains(reason.Reason, "access to topic") {
			return reason
		}
	}
	return nil
}

// channelError ends a session in which one event offended the broker. The next session sends one
// event at a time, so that it is known which.
type channelError struct{ cause *amqp.Error }

func (e *channelError) Error() string { return "the broker ended the session: " + e.cause.Reason }

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
	if trace := events.Traceparent(e.Traceparent); trace != "" { // rows are also written by hand
		headers["traceparent"] = trace
	}
	at := e.CreatedAt
	if at.Unix() < 0 {
		at = time.Time{} // the property counts seconds from 1970 without a sign: it is left out
	}
	return amqp.Publishing{
		MessageId:    e.EventID.String(),
		Type:         e.Type,
		ContentType:  "application/json",
		DeliveryMode: amqp.Persistent,
		Timestamp:    at,
		Headers:      headers,
		Body:         e.Payload,
	}
}
