package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// This file answers: which rows may this relay publish now, and how do others know?
//
// Two modes, one rule. In mode tx the rows stay locked by a transaction until they are settled: a
// dead relay's locks go with its connection, a frozen one's with its idle transaction. In mode lease
// the claim commits a deadline and a token, and publishing happens outside any transaction: for
// receivers that take long. Each mode respects the other's claims.
//
// The rule is that events of one aggregate leave in the order of their ids, however many relays
// there are. It takes two steps. The first locks rows: selectDue those whose next try is due, and one of
// selectReady, selectUntouched and selectUnblocked the others; these three differ in what they pass
// over, and in cost (caution.go chooses). The second, selectBatch, decides, and must be a new statement
// with a new snapshot (READ COMMITTED): a row lock is taken after the snapshot, so the first step can
// lock a row while an earlier one of its aggregate has failed, or is held by a peer and passed over.
// What the second finds behind such a row is dropped. It decides on what is pending, never on what a
// peer seems to hold (docs/decisions, order per aggregate).

// The statements are put together from a few conditions, so that each stands once.
const (
	// Pending: neither published nor dead. Ready: has not failed. Waiting: has, and its time will come.
	oPending = `o.published_at IS NULL AND o.dead_lettered_at IS NULL`
	// Free: no live lease. The database's clock judges, and no other.
	oFree = `(o.locked_until IS NULL OR o.locked_until < now())`

	// someWaiting is asked once for a statement: mostly nothing waits, and no row need be asked about.
	// Such sub-selects are scalar on purpose; as EXISTS they would become a join over all pending rows,
	// or a walk through the table.
	someWaiting = `(SELECT true FROM orders.outbox
       WHERE published_at IS NULL AND dead_lettered_at IS NULL AND retry_at IS NOT NULL
       ORDER BY retry_at, id
       LIMIT 1)`

	// firstWaiting is the end of one that finds the lowest waiting row of o's aggregate: one probe into
	// an index.
	firstWaiting = `FROM orders.outbox w
       WHERE w.aggregate_type = o.aggregate_type AND w.aggregate_id = o.aggregate_id
         AND w.published_at IS NULL AND w.dead_lettered_at IS NULL AND w.retry_at IS NOT NULL
       ORDER BY w.aggregate_type, w.aggregate_id, w.id
       LIMIT 1`

	// fromFloor is the end of sub-selects that probe what is not waiting, from the scan floor $2 up.
	// Both bounds are row comparisons: with equalities the index scan would start at the aggregate's
	// first entry and walk over all that its history has left there.
	fromFloor = `(e.aggregate_type, e.aggregate_id, e.id) >= (o.aggregate_type, o.aggregate_id, $2)
         AND (e.aggregate_type, e.aggregate_id, e.id) <= (o.aggregate_type, o.aggregate_id, o.id)
       ORDER BY e.aggregate_type, e.aggregate_id, e.id
       LIMIT 1`

	// firstReady ends one that finds the lowest ready row of o's aggregate, firstLeased one that finds
	// the lowest with a lease, live or not.
	firstReady = `FROM orders.outbox e
       WHERE e.published_at IS NULL AND e.dead_lettered_at IS NULL AND coalesce(e.retry_at, '-infinity') = '-infinity'
         AND ` + fromFloor
	firstLeased = `FROM orders.outbox e
       WHERE e.published_at IS NULL AND e.dead_lettered_at IS NULL AND e.locked_until IS NOT NULL
         AND ` + fromFloor
)

// selectDue finds rows whose waiting time is over, of aggregates in which no earlier row is ready
// and the first waiting one is due itself. They come from an index of their own, which has no floor.
const selectDue = `
SELECT o.id, pg_column_size(o.payload)
FROM orders.outbox o
WHERE ` + oPending + ` AND o.retry_at <= now() AND ` + oFree + `
  AND (SELECT w.retry_at <= now() ` + firstWaiting + `)
  AND (SELECT e.id ` + firstReady + `) IS NULL
ORDER BY o.retry_at, o.id
LIMIT $1
FOR UPDATE OF o SKIP LOCKED`

// selectReady finds ready rows in the order in which they were written. $2 is the scan floor.
const (
	selectReady = ready + inOrder

	ready = `
SELECT o.id, pg_column_size(o.payload)
FROM orders.outbox o
WHERE ` + oPending + ` AND o.retry_at IS NULL AND o.id >= $2 AND ` + oFree
	inOrder = `
ORDER BY o.id
LIMIT $1
FOR UPDATE OF o SKIP LOCKED`
)

// selectUntouched does the same, and leaves out what anybody has ever locked: xmax is the last
// transaction that did. To see that costs a fifth of trying to lock what a peer has locked.
const selectUntouched = ready + ` AND o.xmax = '0'::xid` + inOrder

// selectUnblocked leaves out what is held up: rows of aggregates of which an earlier row waits or is
// leased, and of the aggregates $3, $4, of which one has been found to be locked. A run of such rows,
// however long, does not fill the batch then.
const selectUnblocked = ready + `
  AND (o.aggregate_type, o.aggregate_id) NOT IN (SELECT * FROM unnest($3::text[], $4::text[]))
  AND coalesce(CASE WHEN ` + someWaiting + ` THEN (SELECT w.id ` + firstWaiting + `) END, o.id) >= o.id
  AND coalesce((SELECT e.locked_until ` + firstLeased + `), '-infinity') < now()` + inOrder

// selectBatch is the second step: the rows just locked, $1, whole, and whether each is held up
// by a lower pending row of its aggregate that is not among them. A payload above $3 bytes cannot be sent
// anyway and is left behind. The ready rows outside are found in one walk from the floor up, in which
// other aggregates than theirs are left out early. IS TRUE and OFFSET 0 keep the planner's hands off:
// the one stays a look-up in a hash, whatever it knows of the table, and each payload is turned into
// text once.
const selectBatch = `
WITH others AS MATERIALIZED (
    SELECT e.aggregate_type, e.aggregate_id, min(e.id) AS first
    FROM orders.outbox e
    WHERE e.published_at IS NULL AND e.dead_lettered_at IS NULL AND e.retry_at IS NULL
      AND e.id >= $2 AND e.id < (SELECT max(id) FROM unnest($1::bigint[]) AS held (id))
      AND e.id NOT IN (SELECT unnest($1::bigint[]))
      AND ((e.aggregate_type, e.aggregate_id) IN (SELECT aggregate_type, aggregate_id FROM orders.outbox WHERE id = ANY($1))) IS TRUE
    GROUP BY e.aggregate_type, e.aggregate_id
)
SELECT o.id, o.event_id, o.aggregate_type, o.aggregate_id, o.event_type, o.event_version,
       CASE WHEN octet_length(o.body) <= $3 THEN o.body END, octet_length(o.body),
       o.tenant_id, o.traceparent, o.created_at, o.attempt_count,
       coalesce(least(others.first, CASE WHEN ` + someWaiting + ` THEN
         (SELECT w.id FROM orders.outbox w
          WHERE w.aggregate_type = o.aggregate_type AND w.aggregate_id = o.aggregate_id
            AND w.published_at IS NULL AND w.dead_lettered_at IS NULL AND w.retry_at IS NOT NULL
            AND w.id <> ALL($1)
          ORDER BY w.aggregate_type, w.aggregate_id, w.id
          LIMIT 1) END) < o.id, false)
FROM (SELECT *, payload::text AS body FROM orders.outbox WHERE id = ANY($1) OFFSET 0) AS o
     LEFT JOIN others USING (aggregate_type, aggregate_id)
ORDER BY o.id`

// Claim is a batch of rows that are this relay's until it settles them.
type Claim struct {
	Events []Event

	ids    []int64     // all rows held, also those that did not make it into Events
	heldUp []aggregate // of those that did not: each is behind a row of its aggregate that is not held
	full   bool        // there was no room for more
	tx     pgx.Tx      // mode tx: what holds them
	token  *uuid.UUID  // mode lease: what they carry
}

// Claimer claims rows in one of the two modes.
type Claimer struct {
	pool  *pgxpool.Pool
	lease time.Duration // 0 = mode tx
	floor *floor
	// What the last claims have met.
	caution caution
}

// maxAttempts bounds how often one claim tries again because all it has found is held up.
const maxAttempts = 10

// Claim takes up to limit rows. It returns an empty claim, which holds nothing, when there are none.
func (c *Claimer) Claim(ctx context.Context, limit int) (*Claim, error) {
	form := c.caution.form()
	for range maxAttempts {
		held, err := c.claim(ctx, limit, form)
		if err != nil {
			return nil, err
		}
		next, again := c.caution.learn(form, held)
		if !again {
			return held, nil
		}
		if _, err := held.Settle(ctx, c.pool, nil, 0); err != nil { // gives them back
			return nil, err
		}
		form = next
	}
	return &Claim{}, nil
}

// claim makes one attempt, with one form of the first step.
func (c *Claimer) claim(ctx context.Context, limit int, f form) (_ *Claim, err error) {
	tx, err := c.pool.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	held := &Claim{tx: tx}
	defer func() {
		if held.tx != nil && (err != nil || len(held.ids) == 0) {
			rollback(ctx, held.tx)
		}
	}()
	from, bottom := c.floor.value()
	if bottom && f.sql == selectUntouched {
		f.sql = selectReady
	}
	due, err := held.lockRows(ctx, tx, limit, from, f)
	if err != nil {
		return nil, err
	}
	if bottom {
		c.floor.foundAtTheBottom(lowestOf(held.ids[due:]))
	}
	if len(held.ids) == 0 {
		return held, nil
	}
	if c.lease > 0 {
		if err := held.toLease(ctx, c.lease); err != nil {
			return nil, err
		}
	}
	if err := held.load(ctx, c.pool, from); err != nil {
		return nil, err
	}
	return held, nil
}

// lowestOf is the lowest of the ids, 0 if there are none.
func lowestOf(ids []int64) int64 {
	if len(ids) == 0 {
		return 0
	}
	return slices.Min(ids)
}

// rollback ends a transaction that is of no more use. Whoever called may have run out of time; a
// server that has gone without a word must not hold it up much longer.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = tx.Rollback(ctx) // after a commit it does nothing, and a broken connection has rolled back
}

const rollbackTimeout = time.Second

// maxBatchBytes bounds what a batch holds in memory, whatever RELAY_BATCH says: payloads as stored.
const maxBatchBytes = 4 << 20

// lockRows is the first step, for both kinds of rows; it returns how many of them are due ones, which
// come first. These get at most half of the batch, and the whole only if no others are there, so that a
// crowd of failing ones cannot keep fresh ones waiting.
func (c *Claim) lockRows(ctx context.Context, tx pgx.Tx, limit int, from int64, ready form) (due int, err error) {
	bytes := 0
	lock := func(f form, limit int) error {
		if limit == 0 || bytes > maxBatchBytes {
			return nil
		}
		var id int64
		var size int
		rows, _ := tx.Query(ctx, f.sql, append([]any{limit, from}, f.more...)...)
		_, err := pgx.ForEachRow(rows, []any{&id, &size}, func() error {
			if bytes <= maxBatchBytes { // the first row beyond the bound is still taken: one always is
				c.ids = append(c.ids, id)
			}
			bytes += size
			return nil
		})
		if err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		return nil
	}
	if err := lock(form{sql: selectDue}, limit/2); err != nil {
		return 0, err
	}
	due = len(c.ids)
	if err := lock(ready, limit-due); err != nil {
		return 0, err
	}
	if len(c.ids) == 0 {
		if err := lock(form{sql: selectDue}, limit); err != nil {
			return 0, err
		}
		due = len(c.ids)
	}
	c.full = len(c.ids) == limit || bytes > maxBatchBytes
	return due, nil
}

const takeLease = `
UPDATE orders.outbox
SET locked_until = now() + $2, lock_token = $3
WHERE id = ANY($1)`

// toLease turns the locks into a lease and ends the transaction.
func (c *Claim) toLease(ctx context.Context, lease time.Duration) error {
	token := uuid.New()
	if _, err := c.tx.Exec(ctx, takeLease, c.ids, lease, token); err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	if err := c.tx.Commit(ctx); err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	c.tx, c.token = nil, &token
	return nil
}

// maxPayload is the largest body a broker takes: 16 MiB is RabbitMQ's default since 4.0.
const maxPayload = 16 << 20

// load is the second step.
func (c *Claim) load(ctx context.Context, pool *pgxpool.Pool, from int64) error {
	query := pool.Query
	if c.tx != nil {
		query = c.tx.Query
	}
	rows, _ := query(ctx, selectBatch, c.ids, from, maxPayload)
	c.Events = make([]Event, 0, len(c.ids))
	var e Event
	var heldUp bool
	_, err := pgx.ForEachRow(rows, append(e.columns(), &heldUp), func() error {
		if heldUp {
			c.heldUp = append(c.heldUp, e.aggregate())
		} else {
			c.Events = append(c.Events, e)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	return nil
}
