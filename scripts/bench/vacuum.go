package main

// Autovacuum settings are compared: a table with a history is written to and drained at a steady rate under each, and what
// remains in it and in its indexes shows how well vacuum keeps up.

import (
	"context"
	"fmt"
	"time"
)

// vacuumRate is in events a second: busy, but with time left for vacuum.
const vacuumRate = 4000

// vacuumSettings are storage parameters of orders.outbox.
var vacuumSettings = []struct{ name, set string }{
	{"server's defaults", ""},
	{"scale factor 0.01", "autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.01"},
	{"threshold 20,000", "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000"},
	{"threshold 20,000, no delay", "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0"},
}

const insertHistory = `
INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload, published_at)
SELECT 'order', 'old' || n, 'order.placed', jsonb_build_object('note', $2::text), now()
FROM generate_series(1, $1::int) AS n`

func relayVacuum(ctx context.Context, r *rig) error {
	for _, setting := range vacuumSettings {
		err := r.at(ctx, func(s *site) error { return r.vacuumUnder(ctx, s, setting.name, setting.set) })
		if err != nil {
			return fmt.Errorf("%s: %w", setting.name, err)
		}
		r.note("%s: done", setting.name)
	}
	return nil
}

func (r *rig) vacuumUnder(ctx context.Context, s *site, name, set string) error {
	if err := s.watchStatements(ctx); err != nil {
		return err
	}
	settings := []string{`RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_insert_scale_factor)`} // the migrations'
	if set != "" {
		settings = append(settings, `SET (`+set+`)`)
	}
	for _, change := range settings {
		if _, err := s.db.Exec(ctx, `ALTER TABLE orders.outbox `+change); err != nil {
			return err
		}
	}
	if _, err := s.db.Exec(ctx, insertHistory, r.history, filler); err != nil {
		return err
	}
	if _, err := s.db.Exec(ctx, `VACUUM (ANALYZE) orders.outbox`); err != nil {
		return err
	}
	if _, err := s.start(ctx, "relay"); err != nil {
		return err
	}
	written, err := s.writeSteadily(ctx, r.vacuum)
	if err != nil {
		return err
	}
	if err := s.awaitDrained(ctx, written); err != nil {
		return err
	}
	ms, n, err := s.claimCost(ctx)
	if err != nil {
		return err
	}
	var indexes, dead, vacuums float64
	err = s.db.QueryRow(ctx, `
SELECT pg_indexes_size('orders.outbox') / 1048576.0, n_dead_tup, autovacuum_count
FROM pg_stat_user_tables
WHERE relid = 'orders.outbox'::regclass`).Scan(&indexes, &dead, &vacuums)
	r.report(measure{Name: name + ": one claim", Value: ms / float64(n), Unit: "ms"},
		measure{Name: name + ": all indexes", Value: indexes, Unit: "MB"},
		measure{Name: name + ": dead rows at the end", Value: dead, Unit: "rows"},
		measure{Name: name + ": vacuums", Value: vacuums, Unit: "times"})
	return err
}

// writeSteadily writes events in small transactions, purging what the relay makes of them, and returns how many.
func (s *site) writeSteadily(ctx context.Context, lasting time.Duration) (written int, err error) {
	const perBatch = vacuumRate / 50
	began := time.Now()
	for time.Since(began) < lasting {
		if _, err := s.db.Exec(ctx, insertEvents, perBatch, filler, perBatch); err != nil {
			return written, err
		}
		written += perBatch
		due := began.Add(time.Duration(written) * time.Second / vacuumRate)
		select {
		case <-time.After(time.Until(due)):
		case <-ctx.Done():
			return written, context.Cause(ctx)
		}
	}
	return written, nil
}
