package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/pkg/rabbitmq"
)

// This file answers: how many messages are in hand? When the process dies, each of them counts as
// delivered in vain, and after the sixth time is dead-lettered: a message that kills the process
// would take its neighbours along. So it must be alone in hand when it is handled:
//
//	      start, lost session
//	              │
//	              ▼    a fresh message succeeded, none of those given back is left
//	     ┌──── alone: 1 ────▶ 2 ────▶ 4 ────▶ … LOYALTY_PREFETCH
//	     │        ▲            │       │       │
//	     └────────┘            ▼       ▼       ▼
//	a suspect succeeded     a suspect arrived among others: all are given back, uncounted
//
// A suspect is a message that has been delivered in vain. The window doubles, instead of opening at
// once, because a fresh message can be a killer too: it then hits about as many neighbours as have
// just succeeded, and not all that a queue can offer to a process that dies at every start.
//
// A live consumer's prefetch cannot be changed (facts 12), so each size has a consumer of its own.
type window struct {
	ch      *amqp.Channel
	most    int           // LOYALTY_PREFETCH
	timeout time.Duration // LOYALTY_CONSUMER_TIMEOUT; 0 = the broker's

	size     int           // how many may be in hand: 1, or more
	alone    int           // how many messages more have to be handled alone before it grows
	inHand   []delivery    // arrived and not taken; older than what is in arrivals
	arrivals chan delivery // nil while no consumer of ours is open
	received atomic.Bool   // something has arrived
}

// ended is the error for messages that have stopped coming: connection lost, channel closed, or consumer cancelled by the broker.
func (w *window) ended() error {
	if w.ch.IsClosed() {
		return rabbitmq.ErrEnded
	}
	return fmt.Errorf("%w: it has cancelled the consumer, whose queue was deleted or whose time for a message was up", rabbitmq.ErrEnded)
}

// sync returns when the broker has dealt with whatever has been sent before on this channel.
func (w *window) sync() error { return w.ch.Qos(w.size, 0, false) }

// open starts consuming. Qos is a synchronous call: when it is answered, the broker has dealt with
// whatever has been sent before on this channel, such as what was given back.
func (w *window) open() error {
	if err := w.sync(); err != nil {
		return err
	}
	args := amqp.Table{}
	if w.timeout > 0 {
		args["x-consumer-timeout"] = w.timeout.Milliseconds()
	}
	deliveries, err := w.ch.Consume(topology.Queue, consumerName, false, false, false, false, args)
	if err != nil {
		return err
	}
	// The client hands deliveries over one by one, so whoever asks without waiting what has arrived gets one.
	// A buffer of our own fills, with messages already read, while the batch before them is in the database. It
	// always has room, or the broker would exceed the prefetch.
	w.arrivals = make(chan delivery, w.size)
	go func(arrivals chan<- delivery) {
		defer close(arrivals)
		for d := range deliveries {
			w.received.Store(true)
			arrivals <- read(d)
		}
	}(w.arrivals)
	return nil
}

// stop ends consuming; what has arrived stays in hand.
func (w *window) stop() error {
	if w.arrivals == nil {
		return nil
	}
	if err := w.ch.Cancel(consumerName, false); err != nil {
		return err
	}
	for d := range w.arrivals {
		w.inHand = append(w.inHand, d)
	}
	w.arrivals = nil
	return nil
}

// take waits for messages and returns those to be handled next: what has arrived, at most n, without
// waiting for more. If one is a suspect, it is the only message in hand. It returns none when ctx ends.
func (w *window) take(ctx context.Context, n int) ([]delivery, error) {
	for {
		if err := w.receive(ctx); err != nil || ctx.Err() != nil {
			return nil, err
		}
		if w.size > 1 && slices.ContainsFunc(w.inHand, delivery.suspect) {
			if err := w.narrow(); err != nil {
				return nil, err
			}
			continue
		}
		batch := w.inHand[:min(n, len(w.inHand))]
		if w.growsAfter(batch) {
			// Now, while the broker can hand out nothing more: what is under way to a consumer when that is
			// cancelled comes again, marked as redelivered.
			if err := w.stop(); err != nil {
				return nil, err
			}
		}
		w.inHand = w.inHand[len(batch):]
		return batch, nil
	}
}

// receive waits until something is in hand, and adds what else has arrived.
func (w *window) receive(ctx context.Context) error {
	if w.arrivals == nil { // stopped in order to grow
		if len(w.inHand) > 0 {
			return nil
		}
		if err := w.open(); err != nil {
			return err
		}
	}
	if len(w.inHand) == 0 {
		select {
		case <-ctx.Done():
			return nil
		case d, open := <-w.arrivals:
			if !open {
				return w.ended()
			}
			w.inHand = append(w.inHand, d)
		}
	}
	for {
		select {
		case d, open := <-w.arrivals:
			if !open { // what is in hand is ours no more
				return w.ended()
			}
			w.inHand = append(w.inHand, d)
		default:
			return nil
		}
	}
}

// narrow gives back everything in hand and goes on with one message at a time, until as many have
// been handled as were given back: the suspect is among them.
func (w *window) narrow() error {
	if err := w.stop(); err != nil {
		return err
	}
	if err := nackAll(w.ch); err != nil {
		return err
	}
	w.size, w.alone, w.inHand = 1, len(w.inHand), nil
	return w.open()
}

// growsAfter tells whether more may be in hand if the batch succeeds. A suspect that succeeds says
// nothing about the next message: those delivered in vain come first.
func (w *window) growsAfter(batch []delivery) bool {
	return w.size < w.most && w.alone <= len(batch) && !batch[0].suspect()
}

// handled tells that a batch has been settled, and whether all of it succeeded.
func (w *window) handled(batch []delivery, succeeded bool) {
	if succeeded && w.growsAfter(batch) {
		w.size = min(2*w.size, w.most)
	}
	w.alone = max(0, w.alone-len(batch))
}
