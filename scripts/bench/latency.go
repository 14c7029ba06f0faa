package main

// How long is an event on its way, at fifty orders a second? The database tells when each transaction was committed
// (track_commit_timestamp), and the relay's mark carries the time at which it was written, just after the confirm: one
// clock for both ends. A commit's time is taken before it is on disk, so that wait is part of what is measured.

import (
	"context"
	"time"
)

// percentiles of a query's only column, in milliseconds.
const percentiles = `
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) * 1000, percentile_cont(0.99) WITHIN GROUP (ORDER BY seconds) * 1000
FROM (`

const confirmSeconds = percentiles + `
    SELECT extract(epoch FROM e.published_at - pg_xact_commit_timestamp(o.xmin))::float8 AS seconds
    FROM orders.orders o JOIN orders.outbox e ON e.aggregate_id = o.id::text
    WHERE o.id > $1)`

const ledgerSeconds = percentiles + `
    SELECT extract(epoch FROM pg_xact_commit_timestamp(l.xmin) - pg_xact_commit_timestamp(o.xmin))::float8 AS seconds
    FROM orders.orders o JOIN loyalty.ledger l ON l.order_id = o.id
    WHERE o.id > $1)`

func relayLatency(ctx context.Context, r *rig) error {
	for _, wake := range []string{"true", "false"} {
		err := r.at(ctx, func(s *site) error {
			if _, err := s.start(ctx, "relay"); err != nil {
				return err
			}
			warm, err := r.placeSteadily(ctx, s, "ORDERS_WAKE="+wake)
			if err != nil {
				return err
			}
			const done = `SELECT count(published_at) = count(*) FROM orders.outbox`
			p50, p99, err := s.percentiles(ctx, done, confirmSeconds, warm)
			if wake == "false" {
				r.reportLatency("polling only: commit to confirm", p50, p99)
				return err
			}
			m50, m99 := latency("commit to confirm", p50, p99)
			r.report(m50.atMost(5), m99.atMost(20))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func pipelineLatency(ctx context.Context, r *rig) error {
	return r.at(ctx, func(s *site) error {
		for _, service := range []string{"relay", "loyalty"} {
			if _, err := s.start(ctx, service); err != nil {
				return err
			}
		}
		warm, err := r.placeSteadily(ctx, s)
		if err != nil {
			return err
		}
		const done = `SELECT (SELECT count(*) FROM loyalty.ledger) = (SELECT count(*) FROM orders.orders)`
		p50, p99, err := s.percentiles(ctx, done, ledgerSeconds, warm)
		m50, m99 := latency("order commit to ledger commit", p50, p99)
		r.report(m50.atMost(6), m99.atMost(25))
		return err
	})
}

// warmUp opens connections and lets statements be prepared, by orders that are not measured.
const warmUp = 2 * time.Second

// placeSteadily places orders after a warm-up, and returns the last order of that.
func (r *rig) placeSteadily(ctx context.Context, s *site, env ...string) (warm int64, err error) {
	orders, err := s.start(ctx, "orders", env...)
	if err != nil {
		return 0, err
	}
	shop := newShop(orders)
	if _, err := shop.steadily(ctx, ordersPerSecond, min(warmUp, r.steady)); err != nil {
		return 0, err
	}
	if err := s.db.QueryRow(ctx, `SELECT max(id) FROM orders.orders`).Scan(&warm); err != nil {
		return 0, err
	}
	_, err = shop.steadily(ctx, ordersPerSecond, r.steady)
	return warm, err
}

// percentiles waits until done and returns the two, in milliseconds.
func (s *site) percentiles(ctx context.Context, done, query string, warm int64) (p50, p99 float64, err error) {
	err = until(ctx, "all events arrived", time.Minute, 50*time.Millisecond, func() (all bool, err error) {
		err = s.db.QueryRow(ctx, done).Scan(&all)
		return all, err
	})
	if err != nil {
		return 0, 0, err
	}
	err = s.db.QueryRow(ctx, query, warm).Scan(&p50, &p99)
	return p50, p99, err
}

func latency(name string, p50, p99 float64) (m50, m99 measure) {
	return measure{Name: name + ", p50", Value: p50, Unit: "ms"}, measure{Name: name + ", p99", Value: p99, Unit: "ms"}
}

func (r *rig) reportLatency(name string, p50, p99 float64) {
	m50, m99 := latency(name, p50, p99)
	r.report(m50, m99)
}
