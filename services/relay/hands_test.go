package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
)

// gate stops batches of more than one event at the door of a real transport.
type gate struct {
	t       *testing.T
	arrived chan int   // sizes of the batches at the gate
	open    chan error // lets one pass, or breaks its session
}

// gated is one session through the gate.
type gated struct {
	Transport
	gate   gate
	busy   *atomic.Bool
	broken *atomic.Bool
}

func (g gate) wrap(t Transport) Transport {
	return gated{t, g, &atomic.Bool{}, &atomic.Bool{}}
}

func (g gated) Publish(ctx context.Context, batch []Event, window int) ([]error, error) {
	if g.broken.Load() {
		g.gate.t.Error("published in a session that had broken")
	}
	if !g.busy.CompareAndSwap(false, true) {
		g.gate.t.Error("two hands publish at once")
	}
	defer g.busy.Store(false)
	if len(batch) == 1 { // the session's probe
		return g.Transport.Publish(ctx, batch, window)
	}
	g.gate.arrived <- len(batch)
	if err := <-g.gate.open; err != nil {
		g.broken.Store(true)
		results := make([]error, len(batch))
		for i := range results {
			results[i] = errNotSent
		}
		return results, err
	}
	return g.Transport.Publish(ctx, batch, window)
}

// While one batch is at the broker the next one is claimed, and waits for its turn; and when the
// session breaks, what waited is given back and not sent.
func TestTheNextBatchIsClaimedWhileOneIsPublished(t *testing.T) {
	t.Parallel()
	for mode, held := range map[string]string{
		// Two claims: a connection each that does nothing, in the middle of a transaction.
		"tx":    `SELECT count(*) * 100 FROM pg_stat_activity WHERE datname = current_database() AND usename = 'relay_app' AND state = 'idle in transaction'`,
		"lease": `SELECT count(*) FROM orders.outbox WHERE locked_until IS NOT NULL`,
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := lab.ForTest(t)
			db := l.Owner(t)
			lab.Exec(t, db, insertEvents, 1001)
			g := gate{t: t, arrived: make(chan int), open: make(chan error)}
			r := newTestRelay(t, l, settings{claim: mode, batch: 100, wrap: g.wrap})
			stop := runRelay(t, r)
			<-g.arrived // the first batch
			g.open <- nil
			<-g.arrived // the second; the other hand has been called
			lab.AwaitOne(t, db, 200, held)
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

// After a session that ended because of one event, the probe of the next one is confirmed, and says
// nothing of the events behind it: these go out one by one, until a batch of them has passed.
func TestAProbeDoesNotEndTheSearchForAnOffender(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	lab.Exec(t, l.Owner(t), insertEvents, 3)
	r := newTestRelay(t, l, settings{claim: "tx", batch: 100})
	transport, err := r.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.Close)
	r.oneByOne = true
	for _, c := range []struct {
		limit, published int
		searching        bool
	}{{1, 1, true}, {100, 2, false}} {
		done, err := r.publishBatch(t.Context(), transport, c.limit)
		if err != nil || done.Published != c.published {
			t.Fatalf("%+v, %v", done, err)
		}
		if r.oneByOne != c.searching {
			t.Errorf("after %d events: one by one = %v", c.published, r.oneByOne)
		}
	}
}
