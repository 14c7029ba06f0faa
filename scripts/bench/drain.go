package main

// How fast does a relay empty the outbox? Fifty thousand events are there already, each of another order; one relay
// or two are started, and the clock runs from the first mark to the last, by the database's clock.

import (
	"context"
	"fmt"
	"slices"
	"time"

	"example.com/outboxlab/pkg/events/topology"
)

// What the relay uses unless told otherwise: the targets are for this.
const (
	defaultClaim = "tx"
	defaultBatch = 1000
)

func relayDrain(ctx context.Context, r *rig) error {
	var used []usage // of one relay as it is by default, round by round
	ways := r.publishAlone(ctx)
	alone := len(ways)
	for _, c := range r.configurations() {
		ways = append(ways, way{c.String(), func() (float64, error) {
			d, err := r.drain(ctx, c)
			if c == (configuration{1, defaultClaim, defaultBatch}) {
				used = append(used, d.usage)
			}
			return d.perSecond, err
		}})
	}
	ways = append(ways, r.plainLoops(ctx)...)
	rates, err := r.inTurns(ways)
	if err != nil {
		return err
	}
	raw := measure{Name: "raw publish", Value: slices.Max(rates[:alone]), Unit: "events/s"}
	r.report(raw)
	for i, way := range ways[alone:] {
		m := measure{Name: way.name, Value: rates[alone+i], Unit: "events/s"}.to(raw)
		if target, has := drainTargets[way.name]; has {
			m = m.atLeast(target)
		}
		r.report(m)
	}
	memory, cpu := total(used)
	r.report(measure{Name: "resident memory, at most", Value: memory, Unit: "MB"}.atMost(50),
		measure{Name: "CPU of the relay for 1,000 events", Value: cpu.Seconds() * 1000 * 1000 / float64(r.events*len(used)), Unit: "ms"})
	return nil
}

// drainTargets are what the relay is expected to reach of the ceiling, as it is by default.
var drainTargets = map[string]float64{
	configuration{1, defaultClaim, defaultBatch}.String(): 0.70,
	configuration{2, defaultClaim, defaultBatch}.String(): 0.85,
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
	usage
	perSecond float64
}

func (r *rig) drain(ctx context.Context, c configuration) (d drained, err error) {
	err = r.at(ctx, func(s *site) error {
		if err := s.fill(ctx, r.events); err != nil {
			return err
		}
		if err := s.startTogether(ctx, c.relays, "relay", "RELAY_CLAIM="+c.claim, fmt.Sprint("RELAY_BATCH=", c.batch)); err != nil {
			return err
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
