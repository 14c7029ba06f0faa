package main

// How fast does a relay empty the outbox? Fifty thousand events are there already, each of another order; one relay
// or two are started, and the clock runs from the first mark to the last, by the database's clock.

import (
	"context"
	"fmt"
	"time"

	"example.com/outboxlab/pkg/events/topology"
)

// What the relay uses unless told otherwise: the targets are for this.
const (
	defaultClaim = "tx"
	defaultBatch = 500
)

func relayDrain(ctx context.Context, r *rig) error {
	ceiling, err := r.publishCeiling(ctx)
	if err != nil {
		return err
	}
	var drains []drained
	for _, c := range r.configurations() {
		d, err := r.drain(ctx, c)
		if err != nil {
			return fmt.Errorf("%v: %w", c, err)
		}
		r.note("%v: %.0f/s", c, d.perSecond)
		drains = append(drains, d)
	}
	loops, err := r.plainLoops(ctx)
	if err != nil {
		return err
	}
	again, err := r.publishCeiling(ctx) // the machine may be in another mood by now
	if err != nil {
		return err
	}
	raw := measure{Name: "raw publish", Value: max(ceiling, again), Unit: "events/s"}
	r.report(raw)
	for _, d := range drains {
		m := measure{Name: d.String(), Value: d.perSecond, Unit: "events/s"}.to(raw)
		if d.claim == defaultClaim && d.batch == defaultBatch {
			m = m.atLeast(map[int]float64{1: 0.70, 2: 0.85}[d.relays])
		}
		r.report(m)
	}
	for _, l := range loops {
		r.report(l.to(raw))
	}
	for _, d := range drains {
		if d.claim == defaultClaim && d.batch == defaultBatch && d.relays == 1 {
			r.report(measure{Name: "resident memory, at most", Value: d.memory, Unit: "MB"}.atMost(50),
				measure{Name: "CPU of the relay for 1,000 events", Value: d.cpu.Seconds() * 1000 * 1000 / float64(r.events), Unit: "ms"})
		}
	}
	return nil
}

// configuration is a way to run relays.
type configuration struct {
	relays int
	claim  string // tx or lease
	batch  int
}

func (c configuration) String() string {
	return fmt.Sprintf("%s, claim %s, batch %d", map[int]string{1: "one relay", 2: "two relays"}[c.relays], c.claim, c.batch)
}

// configurations are all that are measured; the default one is always among them.
func (r *rig) configurations() (all []configuration) {
	for _, relays := range []int{1, 2} {
		for _, claim := range []string{defaultClaim, "lease"} {
			for _, batch := range r.batchSizes {
				all = append(all, configuration{relays, claim, batch})
			}
		}
	}
	return all
}

// drained is how a configuration did.
type drained struct {
	configuration
	usage
	perSecond float64
}

func (r *rig) drain(ctx context.Context, c configuration) (d drained, err error) {
	d.configuration = c
	err = r.at(ctx, func(s *site) error {
		if err := s.fill(ctx, r.events); err != nil {
			return err
		}
		for range c.relays {
			if _, err := s.start(ctx, "relay", "RELAY_CLAIM="+c.claim, fmt.Sprint("RELAY_BATCH=", c.batch)); err != nil {
				return err
			}
		}
		if err := s.awaitDrained(ctx, r.events); err != nil {
			return err
		}
		for _, p := range s.services {
			used, err := p.stop(ctx)
			if err != nil {
				return err
			}
			d.cpu += used.cpu
			d.memory = max(d.memory, used.memory)
		}
		d.perSecond, err = s.markedPerSecond(ctx)
		return err
	})
	return d, err
}

const (
	drainWithin = 10 * time.Minute
	drainPause  = 20 * time.Millisecond
	// crowd is how many messages may wait before they are thrown away: a long queue would slow the broker down.
	crowd = 60_000
)

// awaitDrained waits until n events have been published and marked. It looks at the queue, which costs nothing, and at
// the table only at the end.
func (s *site) awaitDrained(ctx context.Context, n int) error {
	gone := 0
	err := until(ctx, fmt.Sprintf("%d events published", n), drainWithin, drainPause, func() (bool, error) {
		queue, err := s.ch.QueueDeclarePassive(topology.Queue, true, false, false, false, nil)
		if err == nil && queue.Messages > crowd {
			var purged int
			purged, err = s.ch.QueuePurge(topology.Queue, false)
			gone += purged
			return false, err
		}
		return gone+queue.Messages >= n, err
	})
	if err != nil {
		return err
	}
	return until(ctx, "the last events marked", time.Minute, drainPause, func() (done bool, err error) {
		err = s.db.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM orders.outbox WHERE published_at IS NULL)`).Scan(&done)
		return done, err
	})
}

// markedPerSecond is taken from the marks themselves, so that neither a relay's start nor our looking counts.
func (s *site) markedPerSecond(ctx context.Context) (perSecond float64, err error) {
	err = s.db.QueryRow(ctx, `
SELECT count(*) / extract(epoch FROM max(published_at) - min(published_at))::float8
FROM orders.outbox`).Scan(&perSecond)
	return perSecond, err
}
