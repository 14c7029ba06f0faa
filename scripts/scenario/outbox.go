// What does the outbox say? The queries behind the measures that ask it, and what a verdict reads of it.
package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const (
	countPending = `SELECT count(*) FROM orders.outbox WHERE published_at IS NULL AND dead_lettered_at IS NULL`
	countGivenUp = `SELECT count(*) FROM orders.outbox WHERE dead_lettered_at IS NOT NULL`
	sumTries     = `SELECT coalesce(sum(attempt_count), 0) FROM orders.outbox`
	ageOfOldest  = `
SELECT coalesce(floor(extract(epoch FROM clock_timestamp() - min(created_at))), 0)::int
FROM orders.outbox
WHERE published_at IS NULL AND dead_lettered_at IS NULL`

	// A row that is locked carries its locker's transaction, and a transaction under way holds a lock on its own number.
	// To find out by trying to lock the row would hide it from a relay that claims at that moment.
	countClaimed = `
SELECT count(*)
FROM orders.outbox o
WHERE published_at IS NULL AND dead_lettered_at IS NULL
  AND (locked_until > clock_timestamp()
       OR EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'transactionid' AND l.granted AND l.transactionid = o.xmax))`
)

// awardsUnderWay counts the transactions in which loyalty is at work.
const awardsUnderWay = `
SELECT count(*)
FROM pg_stat_activity
WHERE datname = current_database() AND usename = 'loyalty_app' AND state <> 'idle'`

// row is one outbox row, as far as order is concerned.
type row struct {
	id        int64
	aggregate string // type and id
}

// readOutbox fills in what the outbox knows of events.
func (s *stage) readOutbox(ctx context.Context, c *counts) error {
	c.rows, c.givenUp = map[string]row{}, map[string]bool{}
	rows, _ := s.db.Query(ctx, `
SELECT event_id::text, id, aggregate_type || ' ' || aggregate_id,
       published_at IS NULL AND dead_lettered_at IS NULL, dead_lettered_at IS NOT NULL,
       CASE jsonb_typeof(payload->'orderId') WHEN 'number' THEN (payload->>'orderId')::numeric::bigint ELSE 0 END
FROM orders.outbox`)
	var event string
	var r row
	var pending, dead bool
	var order int64
	_, err := pgx.ForEachRow(rows, []any{&event, &r.id, &r.aggregate, &pending, &dead, &order}, func() error {
		c.events[event], c.rows[event] = order, r
		if pending {
			c.pending = append(c.pending, event)
		}
		if dead {
			c.givenUp[event] = true
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the outbox: %w", err)
	}
	return nil
}
