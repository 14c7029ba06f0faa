package main

// An event's way is timed at fifty orders a second. The database tells when each transaction was committed
// (track_commit_timestamp), and the relay's mark carries the time at which it was written, just after the confirm: both
// ends are of one clock. A commit's time is taken before it is on disk, so that wait is part of what is measured.

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
	const done = `SELECT count(published_at) = count(*) FROM orders.outbox`
	way := func(wake string, p50, p99 float64) func() ([]reading, error) {
		return r.latency(ctx, []string{"relay"}, "ORDERS_WAKE="+wake, done, confirmSeconds, p50, p99)
	}
	measures, err := r.compare(
		contestant{name: "order commit to confirm", run: way("true", 5, 20)},
		contestant{name: "order commit to confirm, polling only", run: way("false", 0, 0)})
	r.report(measures...)
	return err
}

func pipelineLatency(ctx context.Context, r *rig) error {
	const done = `SELECT (SELECT count(*) FROM loyalty.ledger) = (SELECT count(*) FROM orders.orders)`
	measures, err := r.compare(contestant{name: "order commit to ledger commit",
		run: r.latency(ctx, []string{"relay", "loyalty"}, "ORDERS_WAKE=true", done, ledgerSeconds, 5, 25)})
	r.report(measures...)
	return err
}

// latency runs these services and orders, and returns the two percentiles, each with its aim in milliseconds.
func (r *rig) latency(ctx context.Context, services []string, orders, done, query string, aim50, aim99 float64) func() ([]reading, error) {
	return r.inLab(ctx, func(s *site) ([]reading, error) {
		for _, service := range services {
			if _, err := s.start(ctx, service); err != nil {
				return nil, err
			}
		}
		warm, err := r.placeSteadily(ctx, s, orders)
		if err != nil {
			return nil, err
		}
		p50, p99, err := s.percentiles(ctx, done, query, warm)
		return []reading{{", p50", p50, "ms", aim50}, {", p99", p99, "ms", aim99}}, err
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
	err = until(ctx, "all events arrived", drainWithin, 50*time.Millisecond, func() (all bool, err error) {
		err = s.db.QueryRow(ctx, done).Scan(&all)
		return all, err
	})
	if err != nil {
		return 0, 0, err
	}
	err = s.db.QueryRow(ctx, query, warm).Scan(&p50, &p99)
	return p50, p99, err
}
