package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/rabbitmq"
)

// This file answers: when has a redriven message arrived? When the broker has confirmed it and not
// returned it: it confirms as well what no queue is bound for, after returning it.

const confirmTimeout = 10 * time.Second

var (
	errNowhere     = errors.New("no queue is bound for it where it came from")
	errRefused     = errors.New("refused by the broker: a queue that should take it is full or unavailable")
	errUnconfirmed = errors.New("not confirmed: it may have arrived, and will be a duplicate then")
)

// publisher has a connection of its own: a broker under a memory alarm stops reading from it, and the
// letters in hand could not be given back over the same one.
type publisher struct {
	conn    *rabbitmq.Conn
	ch      *amqp.Channel
	returns chan amqp.Return
	closed  chan *amqp.Error
	missing map[string]error // by exchange: nil if it exists
}

// openPublisher connects, once: the broker has just answered another connection. Nothing is declared: a
// binding that somebody has removed is for a person to restore.
func openPublisher(ctx context.Context, url rabbitmq.URL) (*publisher, error) {
	conn, ch, err := rabbitmq.Open(ctx, url, "loyalty dlq redrive", func(ch *amqp.Channel) error { return ch.Confirm(false) })
	if err != nil {
		return nil, err
	}
	return &publisher{
		conn: conn, ch: ch, missing: map[string]error{},
		returns: ch.NotifyReturn(make(chan amqp.Return, windowSize)),
		closed:  ch.NotifyClose(make(chan *amqp.Error, 1)),
	}, nil
}

func (p *publisher) close() { p.conn.Close() }

// publish sends the letters, a windowful at most, to where they came from, and tells of each whether it
// arrived (nil) or why not. The second error means that no more can be published. A stop request
// does not interrupt it: a confirm not waited for would make a duplicate.
func (p *publisher) publish(letters []letter) (results []error, broken error) {
	results = make([]error, len(letters))
	confirms := make([]*amqp.DeferredConfirmation, len(letters))
	for i, l := range letters {
		if confirms[i], results[i] = p.send(l); errors.Is(results[i], errUnconfirmed) {
			broken = results[i]
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), confirmTimeout)
	defer cancel()
	for i, confirm := range confirms {
		if confirm == nil {
			continue
		}
		acked, err := confirm.WaitContext(ctx)
		switch {
		case err != nil:
			results[i] = errUnconfirmed
			broken = fmt.Errorf("no confirm within %v", confirmTimeout)
		case !acked && p.ch.IsClosed(): // a lost channel completes what is pending as "not acked": unknown, not refused
			results[i] = errUnconfirmed
			broken = p.ended()
		case !acked:
			results[i] = errRefused
		}
	}
	p.markReturned(letters, results)
	return results, broken
}

// ended says why the broker ended the session: of one message in many, say, that is larger than it takes.
func (p *publisher) ended() error {
	select {
	case reason := <-p.closed: // nil once it has been read
		if reason != nil {
			return fmt.Errorf("the broker ended the session: %w", reason)
		}
	default:
	}
	return errors.New("the broker ended the session")
}

func (p *publisher) send(l letter) (*amqp.DeferredConfirmation, error) {
	exchange, key, err := l.origin()
	if err != nil {
		return nil, err
	}
	if err := p.exists(exchange); err != nil {
		return nil, err
	}
	const mandatory, immediate = true, false
	confirm, err := p.ch.PublishWithDeferredConfirm(exchange, key, mandatory, immediate, again(l))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnconfirmed, err)
	}
	return confirm, nil
}

// exists asks for each exchange once, on a channel that may be lost: publishing to one that does not
// exist would end the session for all letters.
func (p *publisher) exists(exchange string) error {
	if known, asked := p.missing[exchange]; asked || exchange == "" {
		return known
	}
	ch, err := p.conn.Channel()
	if err != nil {
		return fmt.Errorf("%w: %w", errUnconfirmed, err)
	}
	defer ch.Close()
	err = ch.ExchangeDeclarePassive(exchange, amqp.ExchangeTopic, true, false, false, false, nil) // the kind is not compared
	if refused, ok := errors.AsType[*amqp.Error](err); ok && refused.Code == amqp.NotFound {
		err = fmt.Errorf("the exchange %q, where it came from, does not exist", exchange)
	}
	p.missing[exchange] = err
	return err
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
