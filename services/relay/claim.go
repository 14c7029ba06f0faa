package main

import (
	"context"
	"fmt"
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
// there are. It takes two statements, and the second must be a new one, with a new snapshot
// (READ COMMITTED): a row lock is taken after the snapshot, so the first can lock a row while an
// earlier one of its aggregate has meanwhile failed, or is held by a peer and passed over. What the
// second finds behind such a row is dropped. A claim decides on what is pending, never on what a
// peer seems to hold (docs/decisions, order per aggregate).

// The statements are put together from a few conditions, so that each stands once.
const (
	// Pending: neither published nor dead. Ready: has not failed. Waiting: has, and its time will come.
	oPending = `o.published_at IS NULL AND o.dead_lettered_at IS NULL`
	// Free: no live lease. The database's clock judges, and no other.
	oFree = `(o.locked_until IS NULL OR o.locked_until < now())`

	// firstWaiting is the end of a sub-select that finds the lowest waiting row of o's aggregate: one
	// probe into an index. All sub-selects are scalar on purpose. As EXISTS they would become a join
	// over all pending rows.
	firstWaiting = `FROM orders.outbox w
       WHERE w.aggregate_type = o.aggregate_type AND w.aggregate_id = o.aggregate_id
         AND w.published_at IS NULL AND w.dead_lettered_at IS NULL AND w.retry_at IS NOT NULL %s
       ORDER BY w.aggregate_type, w.aggregate_id, w.id
       LIMIT 1`

	// firstReady does the same for ready rows, from the scan floor $2 up. It is written so that only
	// the index by aggregate fits: to the planner the indexes by id look as good when ready rows are
	// few, and walking them for every row is quadratic when they are many.
	firstReady = `FROM orders.outbox e
       WHERE e.aggregate_type = o.aggregate_type AND e.aggregate_id = o.aggregate_id
         AND (e.aggregate_type, e.aggregate_id, e.id) >= (o.aggregate_type, o.aggregate_id, $2)
         AND e.published_at IS NULL AND e.dead_lettered_at IS NULL AND coalesce(e.retry_at, '-infinity') = '-infinity' %s
       ORDER BY e.aggregate_type, e.aggregate_id, e.id
       LIMIT 1`
)

// selectDue finds rows whose waiting time is over, each the first pending one of its aggregate.
// They come from an index of their own, which has no floor.
var selectDue = fmt.Sprintf(`
SELECT o.id
FROM orders.outbox o
WHERE `+oPending+` AND o.retry_at <= now() AND `+oFree+`
  AND least((SELECT w.id `+firstWaiting+`), (SELECT e.id `+firstReady+`)) = o.id
ORDER BY o.retry_at
LIMIT $1
FOR UPDATE OF o SKIP LOCKED`, "", "")

// selectReady finds ready rows, in the order in which they were written, of aggregates that nothing
// holds up: no earlier row waits, and the first ready one is not leased. $2 is the scan floor.
var selectReady = fmt.Sprintf(`
SELECT o.id
FROM orders.outbox o
WHERE `+oPending+` AND o.retry_at IS NULL AND o.id >= $2 AND `+oFree+`
  AND coalesce((SELECT w.id `+firstWaiting+`), o.id) >= o.id
  AND (SELECT e.locked_until IS NULL OR e.locked_until < now() `+firstReady+`)
ORDER BY o.id
LIMIT $1
FOR UPDATE OF o SKIP LOCKED`, "", "")

// selectBatch is the second statement: of the rows just locked, $1, those below the first pending
// row of their aggregate that is not among them, whole, up to $3 bytes of payload (but at least one
// row). A payload above $4 bytes cannot be sent anyway and is left behind.
var selectBatch = fmt.Sprintf(`
WITH held AS (
    SELECT * FROM orders.outbox WHERE id = ANY($1)
), bounds AS MATERIALIZED (
    SELECT o.aggregate_type, o.aggregate_id, least((SELECT w.id `+firstWaiting+`), (SELECT e.id `+firstReady+`)) AS outside
    FROM (SELECT DISTINCT aggregate_type, aggregate_id FROM held) AS o
), sized AS (
    SELECT held.*, octet_length(payload::text) AS size,
           sum(least(octet_length(payload::text), $4)) OVER (ORDER BY id) AS total
    FROM held JOIN bounds USING (aggregate_type, aggregate_id)
    WHERE outside IS NULL OR id < outside
)
SELECT id, event_id, aggregate_type, aggregate_id, event_type, event_version,
       CASE WHEN size <= $4 THEN payload END, size, tenant_id, traceparent, created_at, attempt_count
FROM sized
WHERE total - least(size, $4) < $3
ORDER BY id`, "AND w.id <> ALL($1)", "AND e.id <> ALL($1)")

// Claim is a batch of rows that are this relay's until it settles them.
type Claim struct {
	Events []Event

	ids   []int64    // all rows held, also those that did not make it into Events
	tx    pgx.Tx     // mode tx: what holds them
	token *uuid.UUID // mode lease: what they carry
}

// Claimer claims rows in one of the two modes.
type Claimer struct {
	pool  *pgxpool.Pool
	lease time.Duration // 0 = mode tx
	floor *floor
}

// Claim takes up to limit rows. It returns an empty claim, which holds nothing, when there are none.
func (c *Claimer) Claim(ctx context.Context, limit int) (_ *Claim, err error) {
	tx, err := c.pool.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	held := &Claim{tx: tx}
	defer func() {
		if err != nil || len(held.ids) == 0 {
			_ = tx.Rollback(context.WithoutCancel(ctx))
		}
	}()
	floor := c.floor.value()
	if held.ids, err = lockRows(ctx, tx, limit, floor); err != nil || len(held.ids) == 0 {
		return held, err
	}
	if c.lease > 0 {
		if err := held.toLease(ctx, c.lease); err != nil {
			return nil, err
		}
	}
	if err := held.load(ctx, c.pool, floor); err != nil {
		return nil, err
	}
	return held, nil
}

// lockRows runs the first statement, for both kinds of rows. Rows that are due get at most half of
// the batch, so that a crowd of failing ones cannot keep fresh ones waiting.
func lockRows(ctx context.Context, tx pgx.Tx, limit int, floor int64) ([]int64, error) {
	rows, _ := tx.Query(ctx, selectDue, (limit+1)/2, floor)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	rows, _ = tx.Query(ctx, selectReady, limit-len(ids), floor)
	ready, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	return append(ids, ready...), nil
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

const (
	// maxPayload is the largest body a broker takes: 16 MiB is RabbitMQ's default since 4.0.
	maxPayload = 16 << 20
	// maxBatchBytes bounds the memory that a batch takes, whatever RELAY_BATCH says.
	maxBatchBytes = 4 << 20
)

// load runs the second statement.
func (c *Claim) load(ctx context.Context, pool *pgxpool.Pool, floor int64) error {
	query := pool.Query
	if c.tx != nil {
		query = c.tx.Query
	}
	rows, _ := query(ctx, selectBatch, c.ids, floor, maxBatchBytes, maxPayload)
	var err error
	if c.Events, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Event]); err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	return nil
}
