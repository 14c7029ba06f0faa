package main

// The time that the relay's own statements take inside the server is what PostgreSQL counts by role and text
// (pg_stat_statements), so no statement of the relay is copied here, and the relay need not help.

import (
	"context"
	"time"
)

// watchStatements begins counting.
func (s *site) watchStatements(ctx context.Context) error {
	_, err := s.db.Exec(ctx, `CREATE EXTENSION IF NOT EXISTS pg_stat_statements`)
	return err
}

// claims are the rows of pg_stat_statements that a claim consists of. A claim runs each of its locking statements once.
const claims = `
SELECT coalesce(sum(total_exec_time), 0), coalesce(max(calls), 0)::bigint
FROM pg_stat_statements
WHERE userid = 'relay_app'::regrole AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND query ~ 'outbox' AND query ~ 'SKIP LOCKED'`

// claimCost is the time spent claiming so far, in milliseconds, and the number of claims.
func (s *site) claimCost(ctx context.Context) (ms float64, n int64, err error) {
	err = s.db.QueryRow(ctx, claims).Scan(&ms, &n)
	return ms, n, err
}

// emptyClaim watches n claims of a relay that has nothing to do, and returns what each takes, in milliseconds.
func (s *site) emptyClaim(ctx context.Context, n int) (each []float64, err error) {
	last, count, err := s.claimCost(ctx)
	if err != nil {
		return nil, err
	}
	err = until(ctx, "empty claims", drainWithin, 5*time.Millisecond, func() (bool, error) {
		total, calls, err := s.claimCost(ctx)
		if calls > count {
			each = append(each, (total-last)/float64(calls-count))
			last, count = total, calls
		}
		return len(each) >= n, err
	})
	return each, err
}

// fullScan is what empty claims take without the watermark, in milliseconds: a relay that has just started has none. No
// other relay may run meanwhile.
func (s *site) fullScan(ctx context.Context) (each []float64, err error) {
	for range 5 { // the first one also reads from disk
		before, _, err := s.claimCost(ctx)
		if err != nil {
			return nil, err
		}
		if err := s.runToEnd(ctx, "relay", "--once"); err != nil {
			return nil, err
		}
		after, _, err := s.claimCost(ctx)
		if err != nil {
			return nil, err
		}
		each = append(each, after-before)
	}
	return each, nil
}
