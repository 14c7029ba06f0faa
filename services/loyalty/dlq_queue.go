package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/pkg/rabbitmq"
	"example.com/outboxlab/pkg/service"
)

// This file answers: how does one read a queue and leave it as it was? AMQP can only take messages.
// So all of them are taken, each is held without being acknowledged, so that it cannot come twice,
// and in the end what nobody acknowledged is given back with nack, which the broker does not count
// as a failed delivery (facts 1.1). Only the order in the queue may change.
//
// They are taken a windowful at a time, by a consumer with that prefetch, cancelled when it is
// full. basic.get would take them one by one through the queue's log: 300 a second where this
// takes 30,000. While a command holds them, nobody else sees them; so commands take turns (lock).
//
// If the command is killed, the broker gives the messages back itself and counts it, which
// harms nothing: this queue has no delivery limit.

const (
	// windowSize is how many messages are taken at a time: so many bodies are in memory at once.
	windowSize = 250
	// patience is how long somebody else may have messages in hand before this command begins without them.
	patience = time.Second
	// silence is how long the next message may take before the broker is asked whether there is one, and
	// maxSilences how often in a row.
	silence     = 500 * time.Millisecond
	maxSilences = 20
	// releaseTimeout bounds the wait for the broker to have taken everything back.
	releaseTimeout = 10 * time.Second
	// releasePause is between two looks at whether it has.
	releasePause = 10 * time.Millisecond
	// progressFrom is how many messages are enough for the person to be told of progress.
	progressFrom = 1000
)

// deadLetters is the dead-letter queue, in this command's hands only.
type deadLetters struct {
	console
	conn   *rabbitmq.Conn
	ch     *amqp.Channel
	others int // consumers of somebody else, who is no dlq command
	taken  int // windows
}

// openDeadLetters looks for the broker for 10 s, then waits for its turn. Close with close.
func openDeadLetters(ctx context.Context, url rabbitmq.URL, c console) (*deadLetters, error) {
	q := &deadLetters{console: c}
	_, err := service.Try(ctx, service.OneShotTimeout, func(ctx context.Context) (struct{}, error) {
		conn, ch, err := rabbitmq.Open(ctx, url, "loyalty dlq", func(*amqp.Channel) error { return nil })
		q.conn, q.ch = conn, ch
		return struct{}{}, err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", url, err)
	}
	if err := q.lock(ctx); err != nil {
		err = q.conn.Explain(err)
		q.conn.Close()
		return nil, err
	}
	return q, nil
}

// scan shows every message to visit, once: those that were there at the start, one windowful after
// the other. visit may acknowledge; whatever it does not acknowledge is given back by close.
func (q *deadLetters) scan(ctx context.Context, visit func([]letter) error) error {
	start, err := q.awaitOthers(ctx)
	if err != nil {
		return err
	}
	if q.others = start.Consumers; q.others > 0 {
		q.note("somebody else is reading the dead-letter queue: what they have in hand is not seen here (consumers or messages: %d)", q.others)
	}
	for seen := 0; seen < start.Messages; {
		want := min(windowSize, start.Messages-seen)
		letters, err := q.take(ctx, want)
		if err != nil {
			return err
		}
		if err := visit(letters); err != nil {
			return err
		}
		q.progress(seen, seen+len(letters), start.Messages)
		seen += len(letters)
		if len(letters) < want {
			q.note("%s went to somebody else while this command was reading: not seen here", messages(start.Messages-seen))
			return nil
		}
	}
	return nil
}

// awaitOthers gives somebody who only takes a look, as a running loyalty does from time to time, the time to
// put back what they have in hand.
func (q *deadLetters) awaitOthers(ctx context.Context) (amqp.Queue, error) {
	deadline := time.Now().Add(patience)
	for {
		state, err := q.state()
		if err != nil || state.Consumers == 0 || ctx.Err() != nil || time.Now().After(deadline) {
			return state, err
		}
		service.Wait(ctx, releasePause)
	}
}

// progress says how far a long scan has come, ten times at most.
func (q *deadLetters) progress(before, now, total int) {
	if step := max(progressFrom, total/10); total > progressFrom && now/step > before/step {
		q.note("%d of %d messages", now, total)
	}
}

// take takes n messages and holds them. Fewer come back if somebody else has taken the rest.
func (q *deadLetters) take(ctx context.Context, n int) ([]letter, error) {
	if err := q.ch.Qos(n, 0, false); err != nil {
		return nil, err
	}
	q.taken++
	consumer := fmt.Sprintf("dlq-%d", q.taken)
	deliveries, err := q.ch.Consume(topology.DeadLetterQueue, consumer, false, false, false, false, nil)
	if err != nil {
		return nil, err
	}
	letters, err := q.receive(ctx, deliveries, n)
	// A consumer that stays would be sent again what is given back, or more than n once some are acknowledged.
	if cancelErr := q.ch.Cancel(consumer, false); cancelErr != nil {
		return nil, cancelErr
	}
	for d := range deliveries { // came in between
		letters = append(letters, letter{d})
	}
	return letters, err
}

func (q *deadLetters) receive(ctx context.Context, deliveries <-chan amqp.Delivery, n int) ([]letter, error) {
	var letters []letter
	for silences := 0; len(letters) < n; {
		select {
		case d, open := <-deliveries:
			if !open {
				return letters, errors.New("the broker ended the session; all messages are still in the dead-letter queue")
			}
			letters, silences = append(letters, letter{d}), 0
		case <-time.After(silence):
			state, err := q.state()
			if err != nil || state.Messages == 0 {
				return letters, err
			}
			if silences++; silences == maxSilences {
				return letters, fmt.Errorf("the broker says it has %s and does not hand them out", messages(state.Messages))
			}
		case <-ctx.Done():
			return letters, errors.New("interrupted")
		}
	}
	return letters, nil
}

// state is how many messages are in nobody's hands, and how many consumers there are. A consumer that
// was cancelled counts as long as it has messages in hand; so does each message fetched by basic.get.
func (q *deadLetters) state() (amqp.Queue, error) {
	state, err := q.ch.QueueDeclarePassive(topology.DeadLetterQueue, true, false, false, false, nil)
	if refused, ok := errors.AsType[*amqp.Error](err); ok && refused.Code == amqp.NotFound {
		err = fmt.Errorf("this broker has no queue %s: loyalty and relay make it when they start", topology.DeadLetterQueue)
	}
	return state, err
}

// close gives back what is still in hand, waits until the broker has it, and lets the next command
// have its turn. Without the wait, most of more than 32 windows, or of as many acknowledgements,
// would still be on their way inside the broker when the channel ends: given back, but counted as
// failed deliveries, the acknowledged ones too. A stop request does not cut this short.
func (q *deadLetters) close() {
	defer q.conn.Close()
	deadline := time.Now().Add(releaseTimeout)
	const all, multiple, requeue = 0, true, true
	if q.taken == 0 || q.ch.Nack(all, multiple, requeue) != nil {
		return
	}
	for time.Now().Before(deadline) {
		state, err := q.state()
		if err != nil || state.Consumers <= q.others {
			return
		}
		service.Wait(context.Background(), releasePause)
	}
}
