package main

// A relay empties the outbox: fifty thousand events of as many orders are there already, and one relay or two start. The
// rate is taken from the marks in the table, by the database's clock.

import (
	"context"
	"fmt"
	"time"

	"example.com/outboxlab/pkg/events/topology"
)

// What the relay uses unless told otherwise: the aims are for this.
const (
	defaultClaim = "tx"
	defaultBatch = 1000
)

func relayDrain(ctx context.Context, r *rig) error {
	contestants := r.rawPublishing(ctx)
	for _, c := range r.configurations() {
		contestants = append(contestants, contestant{name: c.String(), atLeast: drainAims[c],
			run: r.inLab(ctx, func(s *site) ([]reading, error) {
				readings, err := s.drain(ctx, c, r.events, r.events)
				if err == nil && c != (configuration{1, defaultClaim, defaultBatch}) {
					readings = readings[:1] // what one relay uses of the machine, as it is by default, says enough
				}
				return readings, err
			})})
	}
	measures, err := r.compare(append(contestants, r.plainLoops(ctx)...)...)
	r.report(measures...)
	return err
}

// drainAims are what the relay is expected to reach of the ceiling, as it is by default.
var drainAims = map[configuration]float64{
	{1, defaultClaim, defaultBatch}: 0.75,
	{2, defaultClaim, defaultBatch}: 0.88,
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

// drain lets relays publish n events of that many aggregates. It returns the rate, memory and CPU time.
func (s *site) drain(ctx context.Context, c configuration, n, aggregates int) ([]reading, error) {
	if err := s.fill(ctx, n, aggregates); err != nil {
		return nil, err
	}
	if err := s.startTogether(ctx, c.relays, "relay", "RELAY_CLAIM="+c.claim, fmt.Sprint("RELAY_BATCH=", c.batch)); err != nil {
		return nil, err
	}
	if err := s.awaitDrained(ctx, n); err != nil {
		return nil, err
	}
	var all usage
	for _, p := range s.services {
		used, err := p.stop(ctx)
		if err != nil {
			return nil, err
		}
		all.cpu += used.cpu
		all.memory = max(all.memory, used.memory)
	}
	perSecond, err := s.markedPerSecond(ctx, c.relays*c.batch)
	return append(rate(perSecond, "events/s"), all.readings(n, "events")...), err
}

const (
	drainWithin = 10 * time.Minute
	drainPause  = 20 * time.Millisecond
	// longQueue is how many messages may wait before they are thrown away: a long queue would slow the broker down.
	longQueue = 60_000
)

// awaitDrained waits until n events have been published and marked. It looks at the queue, which costs nothing, and at
// the table only at the end.
func (s *site) awaitDrained(ctx context.Context, n int) error {
	gone := 0
	err := until(ctx, fmt.Sprintf("%d events published", n), drainWithin, drainPause, func() (bool, error) {
		queue, err := s.ch.QueueDeclarePassive(topology.Queue, true, false, false, false, nil)
		if err == nil && queue.Messages > longQueue {
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

// markedPerSecond is the rate after the first marks, which are a batch of each relay. Marks come a batch at a time, and
// the messages of the first batch were published before any mark: to count them would flatter the relay. If there are
// no more than these marks, as in a quick run, all count.
func (s *site) markedPerSecond(ctx context.Context, first int) (perSecond float64, err error) {
	err = s.db.QueryRow(ctx, `
WITH marks AS (
    SELECT published_at, row_number() OVER (ORDER BY published_at) AS place, count(*) OVER () AS n
    FROM orders.outbox)
SELECT (count(*) - 1) / extract(epoch FROM max(published_at) - min(published_at))::float8
FROM marks
WHERE place >= $1 OR n <= $1`, first).Scan(&perSecond)
	return perSecond, err
}
