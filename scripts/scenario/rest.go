// When may a verdict be read? Only when nothing moves any more: counting a system at work proves nothing. This file
// says what rest means, and waits for it.
package main

import (
	"context"
	"fmt"
	"maps"
	"time"
)

// Bounds of the wait for rest.
const (
	restAfter = 30 * time.Second       // a story that has failed is not waited for longer: it is counted as it stands
	quiet     = 500 * time.Millisecond // no publish and no delivery for so long: whatever moves has had time to show
	retryStep = time.Second            // the queue delays the n-th retry by n steps …
	retryMost = 10 * time.Second       // … and at most this long
	lateness  = 2 * time.Second        // of a delayed message on a busy machine
)

// rest waits until the system is at rest; if it does not come to rest in time, the error says what still moves.
func (s *stage) rest(ctx context.Context, within time.Duration) error {
	deadline := time.Now().Add(within)
	for {
		moving, err := s.moving(ctx)
		if err == nil && moving == "" {
			return nil
		}
		if err != nil {
			moving = err.Error()
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not at rest after %v: %s", within, moving)
		}
		select {
		case <-time.After(5 * pollEvery):
		case <-ctx.Done():
		}
	}
}

// moving names what is not at rest yet, "" when nothing moves. Ready messages, outbox rows and unhandled events can
// be looked at. What cannot be seen from outside is a copy that waits out its retry delay, invisible to every counter
// that is exact: it exists only after a consumer vanished with messages in hand, so the longest delay is waited out then.
func (s *stage) moving(ctx context.Context) (string, error) {
	c, err := s.count(ctx)
	if err != nil {
		return "", err
	}
	var awarding int
	if err := s.db.QueryRow(ctx, awardsUnderWay).Scan(&awarding); err != nil {
		return "", err
	}
	unhandled := c.unhandled()
	lost := s.consumersLastLost()
	delay := min(retryStep*time.Duration(c.failuresUntil(lost)+1), retryMost) + lateness
	switch {
	case s.placing.underWay():
		return "orders are still being placed", nil
	case len(c.pending) > 0:
		return fmt.Sprintf("%d outbox rows are pending", len(c.pending)), nil
	case c.ready > 0:
		return fmt.Sprintf("%d messages are waiting in the queue", c.ready), nil
	case len(unhandled) > 0:
		return fmt.Sprintf("%d events are neither handled nor parked", len(unhandled)), nil
	case !lost.IsZero() && time.Since(lost) < delay:
		return "messages may be waiting out their retry delay", nil
	case awarding > 0:
		return "loyalty is at work", nil // on copies, since every event has been handled
	case s.tap.quietFor() < quiet:
		return "messages are still being published or delivered", nil
	}
	return "", nil
}

// unhandled are the events that are neither in the inbox nor parked: in the dead-letter queue, or given up in the
// outbox. An order whose event was given up has no award all the same, and its own invariant says so.
func (c counts) unhandled() []string {
	parked := maps.Clone(c.givenUp)
	if parked == nil {
		parked = map[string]bool{}
	}
	for _, l := range c.dead {
		parked[l.id] = true
	}
	var ids []string
	for id := range c.events {
		if !c.inbox[id] && !parked[id] {
			ids = append(ids, id)
		}
	}
	return ids
}
