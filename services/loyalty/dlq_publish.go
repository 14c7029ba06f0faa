package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/rabbitmq"
)

// This file redrives messages: it publishes each to where it came from, and tells whether it has arrived. It
// has when the broker has confirmed it and not returned it: the broker confirms as well what no queue is
// bound for, after returning it. dlq_offender.go finds the message over which the broker ends the session.

const confirmTimeout = 10 * time.Second

var (
	errNotSent     = errors.New("not sent: the broker was lost before")
	errNowhere     = errors.New("no queue is bound for it where it came from")
	errRefused     = errors.New("refused by the broker: a queue that should take it is full or unavailable")
	errUnconfirmed = errors.New("not confirmed: it may have arrived, and will be a duplicate then")
	errSilent      = fmt.Errorf("no confirm within %v", confirmTimeout)
)

// publisher has a connection of its own: a broker under a memory alarm stops reading from it, and the
// letters in hand could not be given back over the same one.
type publisher struct {
	open    func(context.Context) (*rabbitmq.Conn, *amqp.Channel, error)
	conn    *rabbitmq.Conn
	ch      *amqp.Channel
	returns chan amqp.Return

	experience
}

// openPublisher connects, once: the broker has just answered another connection. Nothing is declared: a
// binding that somebody has removed is for a person to restore.
func openPublisher(ctx context.Context, url rabbitmq.URL) (*publisher, error) {
	p := &publisher{open: func(ctx context.Context) (*rabbitmq.Conn, *amqp.Channel, error) {
		return rabbitmq.Open(ctx, url, "loyalty dlq redrive", func(ch *amqp.Channel) error { return ch.Confirm(false) })
	}}
	p.routes, p.refused = map[route]bool{}, map[route]error{}
	return p, p.connect(ctx)
}

func (p *publisher) connect(ctx context.Context) (err error) {
	if p.conn, p.ch, err = p.open(ctx); err == nil {
		p.returns = p.ch.NotifyReturn(make(chan amqp.Return, windowSize))
	}
	return err
}

func (p *publisher) close() {
	if p.conn != nil {
		p.conn.Close()
	}
}

// publish sends the letters, a windowful at most, to where they came from, and tells of each whether it
// arrived (nil) or why not. The second error means that no more can be published. A stop request
// does not interrupt it: a confirm not waited for would make a duplicate.
func (p *publisher) publish(letters []letter) (results []error, broken error) {
	results = make([]error, len(letters))
	for i, l := range letters {
		_, _, noOrigin := l.origin()
		results[i] = cmp.Or(noOrigin, l.ownHeaders().Validate(), errNotSent)
	}
	p.startWindow()
	for broken == nil {
		group := p.next(letters, results)
		if len(group) == 0 {
			break
		}
		if cause := p.send(letters, group, results); cause != nil {
			broken = p.goOnAfter(cause, letters, group, results)
		}
	}
	return results, broken
}

// send sends the letters of a group together, and fills in their results. Its error says that the session is
// over: then some of the group are unconfirmed, or have not been sent.
func (p *publisher) send(letters []letter, group []int, results []error) (cause error) {
	const mandatory, immediate = true, false
	confirms := make([]*amqp.DeferredConfirmation, 0, len(group))
	for _, i := range group {
		exchange, key, _ := letters[i].origin()
		confirm, err := p.ch.PublishWithDeferredConfirm(exchange, key, mandatory, immediate, again(letters[i]))
		results[i] = errUnconfirmed // also after an error: part of it may have been written
		if err != nil {
			cause = err
			break
		}
		confirms = append(confirms, confirm)
	}
	ctx, cancel := context.WithTimeout(context.Background(), confirmTimeout)
	defer cancel()
	for n, confirm := range confirms {
		i := group[n]
		acked, err := confirm.WaitContext(ctx)
		switch {
		case err != nil:
			cause = errSilent
		case acked:
			results[i] = nil
		case p.ch.IsClosed(): // a lost channel completes what is pending as "not acked": unknown, not refused
			cause = cmp.Or(cause, error(amqp.ErrClosed))
		default:
			results[i] = errRefused
		}
		if !errors.Is(results[i], errUnconfirmed) {
			p.harmless(letters[i])
		}
	}
	p.markReturned(letters, results)
	return p.why(cause)
}

// why is what the broker said when it ended the session, if it did; otherwise cause.
func (p *publisher) why(cause error) error {
	if cause == nil || errors.Is(cause, errSilent) {
		return cause
	}
	if reason := p.conn.Reason(); reason != nil && reason.Server {
		return reason
	}
	return cause
}

// markReturned finds the letters that came back. Returns are in the buffer before the last confirm
// is (facts 2.3). A letter may have no id, or share it; so they are known by their fingerprints, and
// of copies that cannot be told apart all count as returned: too few are then removed, never too many.
func (p *publisher) markReturned(letters []letter, results []error) {
	returned := map[[sha256.Size]byte]bool{}
	for len(p.returns) > 0 {
		r := <-p.returns
		returned[fingerprint(r.MessageId, r.Type, r.Headers, r.Body)] = true
	}
	for i, l := range letters {
		if len(returned) > 0 && results[i] == nil && returned[l.fingerprint()] {
			results[i] = errNowhere
		}
	}
}

// again is the message as its publisher sent it, but for two things: its expiration is gone, the broker
// took it off at the death; and so is the user id, which may only be that of whoever sends it.
func again(l letter) amqp.Publishing {
	return amqp.Publishing{
		Headers:         l.ownHeaders(),
		ContentType:     l.ContentType,
		ContentEncoding: l.ContentEncoding,
		DeliveryMode:    l.DeliveryMode,
		Priority:        l.Priority,
		CorrelationId:   l.CorrelationId,
		ReplyTo:         l.ReplyTo,
		Expiration:      l.Expiration,
		MessageId:       l.MessageId,
		Timestamp:       l.Timestamp,
		Type:            l.Type,
		AppId:           l.AppId,
		Body:            l.Body,
	}
}
