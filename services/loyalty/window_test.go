package main

import (
	"slices"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
)

// A start may be the one after a crash: whatever was in hand then, one message is in hand now.
func TestAfterAStartOneMessageIsInHand(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for order := range int64(10) {
		s.publish(t, placed(order+1))
	}
	unlock := s.lockLedger(t)
	r := s.loyalty(t)
	awaitBlocked(t, s.db)
	if n := lab.Ready(t, s.ch, topology.Queue); n != 9 {
		t.Errorf("%d messages in hand", 10-n)
	}
	unlock()
	s.awaitIdle(t, r)
}

// With every success there may be more, up to the prefetch.
func TestTheWindowGrowsToThePrefetch(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := s.loyalty(t, "LOYALTY_PREFETCH", "6")
	s.widen(t)
	unlock := s.lockLedger(t)
	for order := range int64(10) {
		s.publish(t, placed(order+1))
	}
	awaitBlocked(t, s.db)
	lab.AwaitReady(t, s.ch, topology.Queue, 4)
	unlock()
	s.awaitIdle(t, r)
}

// openWindow opens a window on the stage's queue, over a connection of its own.
func (s stage) openWindow(t *testing.T, size, most int) *window {
	t.Helper()
	conn, err := amqp.Dial(s.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	w := &window{ch: ch, size: size, most: most}
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	return w
}

// suspects publishes messages and has each delivered in vain once.
func (s stage) suspects(t *testing.T, orders ...int64) {
	t.Helper()
	for _, order := range orders {
		s.publish(t, placed(order))
	}
	for _, d := range s.getAll(t, len(orders)) {
		if err := d.Reject(true); err != nil {
			t.Fatal(err)
		}
	}
}

// getAll takes n messages in hand, waiting for those that wait for their retry.
func (s stage) getAll(t *testing.T, n int) (all []amqp.Delivery) {
	t.Helper()
	for range n {
		lab.Poll(t, awaitLimit, "message", func() (bool, error) {
			d, ok, err := s.ch.Get(topology.Queue, false)
			if ok {
				all = append(all, d)
			}
			return ok, err
		})
	}
	return all
}

// Two suspects arrive among ten others, in a window wide enough for all. When one of them is taken, nothing else is in
// hand; and if the process dies then, no other message has been delivered in vain because of it.
func TestASuspectIsTakenWithNothingElseInHand(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.suspects(t, 11, 12)
	for order := range int64(10) {
		s.publish(t, placed(order+1))
	}
	lab.AwaitReady(t, s.ch, topology.Queue, 12) // the retry's delay is over: the suspects are first in line
	w := s.openWindow(t, 100, 100)
	handled := 0
	for i := range 2 {
		batch, err := w.take(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		for !suspect(batch[0]) {
			if len(batch) != 1 {
				t.Fatalf("%d messages in hand while a suspect is due", len(batch))
			}
			s.finish(t, w, batch)
			handled++
			if batch, err = w.take(t.Context(), 100); err != nil {
				t.Fatal(err)
			}
		}
		if ready := lab.Ready(t, s.ch, topology.Queue); len(batch) != 1 || ready+1+handled != 12 {
			t.Fatalf("suspect %d: %d messages taken, %d ready of %d", i+1, len(batch), ready, 12-handled)
		}
		if i == 0 {
			s.finish(t, w, batch)
			handled++
		}
	}
	if err := w.ch.Close(); err != nil { // to the broker it is all the same: closed, or crashed (facts 1.1)
		t.Fatal(err)
	}
	rest := s.getAll(t, 12-handled)
	if n := len(rest) - len(slices.DeleteFunc(slices.Clone(rest), suspect)); n != 1 {
		t.Errorf("%d messages have been delivered in vain", n)
	}
}

func (s stage) finish(t *testing.T, w *window, batch []amqp.Delivery) {
	t.Helper()
	if err := batch[len(batch)-1].Ack(true); err != nil {
		t.Fatal(err)
	}
	w.handled(batch, true)
}
