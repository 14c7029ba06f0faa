package main

import (
	"context"
	"errors"
	"slices"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/pkg/rabbitmq"
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
	w := &window{ch: s.Channel(t), size: size, most: most}
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

// take is what w has to be handled next.
func (s stage) take(t *testing.T, w *window) []delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), awaitLimit)
	defer cancel()
	batch, err := w.take(ctx, 100)
	if err != nil || len(batch) == 0 {
		t.Fatalf("%d messages, %v", len(batch), err)
	}
	return batch
}

// Two suspects arrive after ten other messages, in a window wide enough for all. When one of them is taken, nothing else
// is in hand; the others have been given back for that no more than once; and if the process dies then, no other message
// has been delivered in vain because of it.
func TestASuspectIsTakenWithNothingElseInHand(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const all = 12
	s.suspects(t, 11, 12)
	for order := range int64(10) {
		s.publish(t, placed(order+1))
	}
	w := s.openWindow(t, 100, 100)
	lab.Poll(t, awaitLimit, "all in hand", func() (bool, error) { return len(w.arrivals) == all, nil })
	handled := 0
	for suspects := 0; suspects < 2; {
		batch := s.take(t, w)
		if ready := lab.Ready(t, s.ch, topology.Queue); len(batch) != 1 || handled+1+ready != all {
			t.Fatalf("%d messages taken, %d handled and %d ready of %d", len(batch), handled, ready, all)
		}
		if returned, _ := batch[0].Headers["x-acquired-count"].(int64); !batch[0].suspect() && returned > 1 {
			t.Errorf("%s was given back %d times", batch[0].Body, returned)
		}
		if batch[0].suspect() {
			suspects++
		}
		if suspects < 2 {
			s.finish(t, w, batch)
			handled++
		}
	}
	if err := w.ch.Close(); err != nil { // to the broker it is all the same: closed, or crashed (facts 1.1)
		t.Fatal(err)
	}
	inVain := 0
	for _, d := range s.getAll(t, all-handled) {
		if read(d).suspect() {
			inVain++
		}
	}
	if inVain != 1 {
		t.Errorf("%d messages have been delivered in vain", inVain)
	}
}

func (s stage) finish(t *testing.T, w *window, batch []delivery) {
	t.Helper()
	if err := batch[len(batch)-1].Ack(true); err != nil {
		t.Fatal(err)
	}
	w.handled(batch, true)
}

// Every size of the window has a consumer of its own, and changing it gives no message back: what is handled for the first
// time has been delivered once.
func TestAGrowingWindowGivesNothingBack(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const orders = 40
	for order := range int64(orders) {
		s.publish(t, placed(order+1))
	}
	w := s.openWindow(t, 1, 16)
	var sizes []int
	widest := 0
	for handled := 0; handled < orders; {
		batch := s.take(t, w)
		for _, d := range batch {
			if d.Redelivered {
				t.Errorf("%s was given back", d.Body)
			}
		}
		handled += len(batch)
		sizes, widest = append(sizes, w.size), max(widest, len(batch))
		s.finish(t, w, batch)
	}
	if !slices.IsSorted(sizes) || sizes[len(sizes)-1] != 16 || widest == 1 {
		t.Errorf("sizes %v, largest batch %d", sizes, widest)
	}
}

// A consumer that the broker has cancelled handles nothing more, not even what it has in hand: another one may have it.
func TestACancelledConsumerDropsWhatItHasInHand(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.publish(t, placed(1), placed(2), placed(3))
	w := s.openWindow(t, 10, 10)
	lab.Poll(t, awaitLimit, "all in hand", func() (bool, error) { return len(w.arrivals) == 3, nil })
	if batch, err := w.take(t.Context(), 1); err != nil || len(batch) != 1 {
		t.Fatalf("%d messages, %v", len(batch), err)
	}
	if _, err := s.ch.QueueDelete(topology.Queue, false, false, false); err != nil {
		t.Fatal(err)
	}
	if _, open := <-w.arrivals; open {
		t.Fatal("a fourth message")
	}
	if batch, err := w.take(t.Context(), 1); !errors.Is(err, rabbitmq.ErrEnded) {
		t.Errorf("%d messages, %v", len(batch), err)
	}
}
