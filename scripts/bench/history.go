package main

// A claim must not get slower with everything that was published before. The worst case: a million events are drained
// while a session holds a snapshot from before, so that vacuum may not remove a single dead index entry.

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// sliceRates are the events a second of each $1 events, in the order of their marks.
const sliceRates = `
WITH marks AS (
    SELECT published_at, (row_number() OVER (ORDER BY published_at) - 1) / $1::int AS slice
    FROM orders.outbox)
SELECT count(*) / extract(epoch FROM max(published_at) - min(published_at))::float8
FROM marks
GROUP BY slice
ORDER BY slice`

// ends is how many slices at either end are compared, by their medians: the machine's speed changes from one to the next.
const ends = 3

func relayHistory(ctx context.Context, r *rig) error {
	return r.at(ctx, func(s *site) (err error) {
		if err := s.watchStatements(ctx); err != nil {
			return err
		}
		if err := s.fill(ctx, r.history, r.history); err != nil {
			return err
		}
		r.note("%d events written", r.history)
		release, err := s.holdSnapshot(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, release()) }()
		relay, err := s.start(ctx, "relay", "RELAY_POLL=20ms")
		if err != nil {
			return err
		}
		if err := s.awaitDrained(ctx, r.history); err != nil {
			return err
		}
		r.note("drained")
		rows, _ := s.db.Query(ctx, sliceRates, r.slice)
		rates, err := pgx.CollectRows(rows, pgx.RowTo[float64])
		if err != nil {
			return err
		}
		r.note("events a second, slice by slice: %.0f", rates)
		begin := series("first slices of the history", "events/s", rates[:ends])
		end := series("last slices of the history", "events/s", rates[len(rates)-ends:])
		end.rounds = nil // slices are no rounds: the first of these has nothing to do with the first of those
		r.report(begin, end.to(begin).atLeast(0.9))
		empty, err := s.emptyClaim(ctx, r.polls)
		if err != nil {
			return err
		}
		used, err := relay.stop(ctx)
		if err != nil {
			return err
		}
		scans, err := s.fullScan(ctx)
		if err != nil {
			return err
		}
		r.report(series("empty claim by a full scan (once a minute)", "ms", scans), series("empty claim", "ms", empty).atMost(10),
			series("resident memory", "MB", []float64{used.memory}).atMost(50))
		return nil
	})
}

// holdSnapshot opens a transaction that goes on seeing the database as it is now, until released.
func (s *site) holdSnapshot(ctx context.Context) (release func() error, err error) {
	conn, err := pgx.Connect(ctx, s.OwnerURL)
	if err != nil {
		return nil, err
	}
	for _, statement := range []string{`BEGIN ISOLATION LEVEL REPEATABLE READ`, `SELECT 1`} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return nil, errors.Join(err, conn.Close(ctx))
		}
	}
	return func() error { return conn.Close(context.WithoutCancel(ctx)) }, nil
}
