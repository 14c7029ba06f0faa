package main

import (
	"context"
	"errors"
	"testing"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
)

// gated is a real transport whose Publish waits at a gate for batches of more than one event.
type gated struct {
	Transport
	arrived chan int   // sizes of the batches at the gate
	open    chan error // lets one pass, or fail
}

func (g gated) Publish(ctx context.Context, batch []Event, window int) ([]error, error) {
	if len(batch) == 1 { // the session's probe
		return g.Transport.Publish(ctx, batch, window)
	}
	g.arrived <- len(batch)
	if err := <-g.open; err != nil {
		results := make([]error, len(batch))
		for i := range results {
			results[i] = errNotSent
		}
		return results, err
	}
	return g.Transport.Publish(ctx, batch, window)
}

const countHeld = `SELECT (SELECT count(*) FROM orders.outbox WHERE published_at IS NULL)
	- (SELECT count(*) FROM (SELECT FROM orders.outbox WHERE published_at IS NULL AND locked_until IS NULL FOR UPDATE SKIP LOCKED))`

// While one batch is at the broker the next one is claimed, and waits for its turn; and when the
// session breaks, what waited is free again.
func TestTheNextBatchIsClaimedWhileOneIsPublished(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"tx", "lease"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := lab.ForTest(t)
			db := l.Owner(t)
			lab.Exec(t, db, insertEvents, 1001)
			g := gated{arrived: make(chan int), open: make(chan error)}
			r := newTestRelay(t, l, settings{claim: mode, batch: 100, wrap: func(inner Transport) Transport {
				g.Transport = inner
				return g
			}})
			stop := runRelay(t, r)
			<-g.arrived // the first batch
			g.open <- nil
			<-g.arrived // the second; the other hand has been called
			lab.AwaitOne(t, db, 200, countHeld)
			select {
			case <-g.arrived:
				t.Fatal("both hands publish at once")
			default:
			}
			g.open <- errors.New("the connection was lost")
			go func() { // a new session, undisturbed
				for range g.arrived {
					g.open <- nil
				}
			}()
			lab.AwaitOne(t, db, 0, countPending)
			stop()
			close(g.arrived)
			if n := lab.Ready(t, l.Channel(t), topology.Queue); n != 1001 {
				t.Errorf("%d messages of 1001 events", n)
			}
		})
	}
}
