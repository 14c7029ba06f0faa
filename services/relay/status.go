package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// This file answers: how far behind is the outbox? (`relay status`, and the gauges on /metrics)

// backlog is the state of the outbox.
type backlog struct {
	Pending       int64   `json:"pending"` // neither published nor dead; includes the next two
	InFlight      int64   `json:"inFlight"`
	Waiting       int64   `json:"waiting"`
	Dead          int64   `json:"dead"`
	OldestSeconds float64 `json:"oldestAgeSeconds"`
}

// selectBacklog takes the age from created_at. A time in the future says nothing of that, and would hide
// that the row waits: then the time in the event id counts (NULL if it has none). Times before 1970 count as 1970.
const selectBacklog = `
SELECT count(*),
       count(*) FILTER (WHERE locked_until > now()),
       count(*) FILTER (WHERE retry_at > now()),
       (SELECT count(*) FROM orders.outbox WHERE dead_lettered_at IS NOT NULL),
       extract(epoch FROM greatest(interval '0', now() - greatest(timestamptz '1970-01-01 00:00:00+00', coalesce(
           min(CASE WHEN created_at <= now() THEN created_at ELSE uuid_extract_timestamp(event_id) END), now()))))::float8
FROM orders.outbox
WHERE published_at IS NULL AND dead_lettered_at IS NULL`

// readBacklog counts pending rows. InFlight counts leases only: what mode tx holds is in
// countLocked.
func readBacklog(ctx context.Context, pool *pgxpool.Pool) (b backlog, err error) {
	err = inTransaction(ctx, pool, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, selectBacklog)
		b, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[backlog])
		return err
	})
	return b, err
}

// countLocked counts the rows that mode tx holds, among the first ten thousand ready ones: the ones
// that cannot be locked now. The weakest of row locks is enough to find out, and is gone at once.
const countLocked = `
SELECT (SELECT count(*) FROM (SELECT FROM orders.outbox
                              WHERE published_at IS NULL AND dead_lettered_at IS NULL AND retry_at IS NULL
                              ORDER BY id LIMIT 10000) AS seen)
     - (SELECT count(*) FROM (SELECT FROM orders.outbox
                              WHERE published_at IS NULL AND dead_lettered_at IS NULL AND retry_at IS NULL
                              ORDER BY id LIMIT 10000 FOR KEY SHARE SKIP LOCKED) AS free)`

const countLastMinute = `SELECT count(*) FROM orders.outbox WHERE published_at BETWEEN now() - interval '1 minute' AND now()`

// status prints the backlog, as a table or as JSON.
func status(ctx context.Context, pool *pgxpool.Pool, asJSON bool, stdout io.Writer) error {
	b, err := readBacklog(ctx, pool)
	if err != nil {
		return err
	}
	var locked, lastMinute int64
	err = inTransaction(ctx, pool, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, countLocked).Scan(&locked); err != nil {
			return err
		}
		return tx.QueryRow(ctx, countLastMinute).Scan(&lastMinute)
	})
	if err != nil {
		return err
	}
	b.InFlight += max(0, locked)
	if asJSON {
		return json.NewEncoder(stdout).Encode(struct {
			backlog
			PublishedLastMinute int64 `json:"publishedLastMinute"`
		}{b, lastMinute})
	}
	oldest := time.Duration(b.OldestSeconds * float64(time.Second)).Round(time.Millisecond)
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	for _, line := range []struct {
		name  string
		value any
	}{
		{"pending", b.Pending}, {"  in flight", b.InFlight}, {"  waiting for retry", b.Waiting},
		{"dead", b.Dead}, {"oldest pending", oldest}, {"published in the last minute", lastMinute},
	} {
		fmt.Fprintf(table, "%s\t%v\n", line.name, line.value)
	}
	return table.Flush()
}
