package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A claim takes rows that this relay may publish now, and holds them so that no other relay does.
//
// In mode tx the rows stay locked by a transaction until they are settled: a dead relay's locks go with its
// connection, a frozen one's with its idle transaction. In mode lease the claim commits a deadline and a token,
// and publishing happens outside any transaction: for receivers that take long. Each mode respects the other's claims.
//
// Events of one aggregate leave in the order of their ids, however many relays there are. That takes two steps.
// The first locks rows: selectDue those whose next try is due, selectReady or selectUnblocked the others (query.go).
// The second, selectBatch, decides. It must be a new statement with a new snapshot (READ COMMITTED): a row is
// locked after the first snapshot was taken, and by then an earlier row of its aggregate can have failed, or a
// peer can hold it. A row behind such a row is blocked, and dropped from the batch. The second step goes by
// what is pending, never by what a peer seems to hold (docs/decisions, order per aggregate).

// The statements are put together from a few conditions, so that each stands once.
const (
	// Pending: neither published nor dead. Ready: has not failed. Waiting: has, and its time will come.
	oPending = `o.published_at IS NULL AND o.dead_lettered_at IS NULL`
	// Free: no live lease. The database's clock judges, and no other.
	oFree = `(o.locked_until IS NULL OR o.locked_until < now())`

	// PostgreSQL knows times that RFC 3339 cannot write: infinity, before Christ, after the year 9999.
	// They are read as the nearest one that it can, or a single row would fail the whole query.
	firstTime = `timestamptz '0001-01-01 00:00:00+00'`
	lastTime  = `timestamptz '9999-12-31 23:59:59.999999+00'`

	// Size is about what the row needs in memory, in bytes, found without reading what is stored apart.
	oSize = `coalesce(pg_column_size(o.payload) + octet_length(o.aggregate_type) + octet_length(o.aggregate_id) + octet_length(o.event_type)
       + octet_length(o.tenant_id) + octet_length(o.traceparent), 0)`

	// firstWaiting is the end of a sub-select that finds the lowest waiting row of o's aggregate: one
	// probe into an index. Such sub-selects are scalar on purpose; as EXISTS they would become a join
	// over all pending rows.
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
         AND e.retry_at IS DISTINCT FROM '-infinity'
         AND ` + fromFloor
	firstLeased = `FROM orders.outbox e
       WHERE e.published_at IS NULL AND e.dead_lettered_at IS NULL AND e.locked_until IS NOT NULL
         AND ` + fromFloor
)

// selectDue finds rows whose waiting time is over, of aggregates in which no earlier row is ready and the
// time of the first waiting one was over before: so it is in the batch, too, if there is room for any. They
// come from an index of their own, which has no floor.
const selectDue = `
SELECT o.id, ` + oSize + `
FROM orders.outbox o
WHERE ` + oPending + ` AND o.retry_at <= now() AND ` + oFree + `
  AND (SELECT (w.retry_at, w.id) <= (o.retry_at, o.id) ` + firstWaiting + `)
  AND (SELECT e.id ` + firstReady + `) IS NULL
ORDER BY o.retry_at, o.id
LIMIT $1
FOR UPDATE OF o SKIP LOCKED`

// selectReady finds ready rows in the order in which they were written. $2 is the scan floor.
const (
	selectReady = ready + inOrder

	ready = `
SELECT o.id, ` + oSize + `
FROM orders.outbox o
WHERE ` + oPending + ` AND o.retry_at IS NULL AND o.id >= $2 AND ` + oFree
	inOrder = `
ORDER BY o.id
LIMIT $1
FOR UPDATE OF o SKIP LOCKED`
)

// selectUnblocked leaves out blocked rows: those of aggregates of which an earlier row waits or is
// leased, and of the aggregates $3, $4. A run of such rows, however long, does not fill the batch then.
const selectUnblocked = ready + `
  AND (o.aggregate_type, o.aggregate_id) NOT IN (SELECT * FROM unnest($3::text[], $4::text[]))
  AND coalesce((SELECT w.id ` + firstWaiting + `), o.id) >= o.id
  AND coalesce((SELECT e.locked_until ` + firstLeased + `), '-infinity') < now()` + inOrder

// selectBatch is the second step: the rows just locked, $1, whole, and whether each is blocked
// by a lower pending row of its aggregate that is not among them. A payload above $3 bytes cannot be sent
// anyway and is left behind. The ready rows outside are found in one walk from the floor up, in which
// other aggregates than theirs are left out early. IS TRUE and OFFSET 0 bind the planner:
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
       o.tenant_id, o.traceparent, least(greatest(o.created_at, ` + firstTime + `), ` + lastTime + `), o.attempt_count,
       coalesce(least(others.first,
                      (SELECT w.id FROM orders.outbox w
                       WHERE w.aggregate_type = o.aggregate_type AND w.aggregate_id = o.aggregate_id
                         AND w.published_at IS NULL AND w.dead_lettered_at IS NULL AND w.retry_at IS NOT NULL
                         AND w.id <> ALL($1)
                       ORDER BY w.aggregate_type, w.aggregate_id, w.id
                       LIMIT 1)) < o.id, false)
FROM (SELECT *, payload::text AS body FROM orders.outbox WHERE id = ANY($1) OFFSET 0) AS o
     LEFT JOIN others USING (aggregate_type, aggregate_id)
ORDER BY o.id`

// Claim is a batch of rows that are this relay's until it settles them. One without events holds nothing.
type Claim struct {
	Events []Event

	claimer *Claimer
	ids     []int64    // rows that are held: in mode tx also some that are not among Events
	tx      pgx.Tx     // mode tx: what holds them
	token   *uuid.UUID // mode lease: what they carry

	blocked     []aggregate // of rows that were locked and dropped
	lowestReady int64       // of the ready rows that were locked, 0 = none
}

// Claimer claims rows in one of the two modes. One goroutine uses it.
type Claimer struct {
	pool     *pgxpool.Pool
	lease    time.Duration // 0 = mode tx
	floor    *floor
	query    queryChoice
	refusals refusals
}

const (
	// triesWithin bounds how long one claim tries again because all that it has found is blocked.
	triesWithin = time.Second
	// wideTry is how many rows the third try looks at, at least: a batch may be one row. Each one after
	// it looks at twice as many, within maxBatchBytes.
	wideTry = 1000
)

// Claim takes up to limit rows, or none. If rehearse is set it makes sure that they can be marked later; after
// a refusal it does so in any case.
func (c *Claimer) Claim(ctx context.Context, limit int, rehearse bool) (*Claim, error) {
	began := time.Now()
	wide := limit
	if c.refusals.recent() {
		rehearse, wide = true, max(limit, rehearseRows)
	}
	query := c.query.first()
	for try := 0; query != nil && time.Since(began) < triesWithin; try++ {
		from, bottom := c.floor.value()
		if try >= 2 {
			wide = max(limit, wideTry<<min(try-2, 6))
		}
		claim, err := c.try(ctx, limit, wide, from, *query, rehearse)
		if err != nil {
			return nil, fmt.Errorf("claim: %w", err)
		}
		if bottom {
			c.floor.foundAtTheBottom(claim.lowestReady)
		}
		if query = c.query.next(*query, claim); query == nil {
			return claim, nil
		}
	}
	return &Claim{}, nil
}

// try locks up to wide rows with one query, and keeps up to limit of them.
func (c *Claimer) try(ctx context.Context, limit, wide int, from int64, q lockQuery, rehearseMark bool) (_ *Claim, err error) {
	tx, err := beginAs(ctx, c.pool, beginBatch)
	if err != nil {
		return nil, err
	}
	claim := &Claim{claimer: c, tx: tx}
	defer func() {
		if err != nil || len(claim.Events) == 0 { // gives back what may be held
			rollback(ctx, tx)
		}
	}()
	if err := claim.lockRows(ctx, wide, from, q); err != nil || len(claim.ids) == 0 {
		return claim, err
	}
	if err := claim.load(ctx, limit, from); err != nil {
		return nil, claim.refused(stepRead, err, func(ctx context.Context, tx pgx.Tx, ids []int64) error {
			return (&Claim{tx: tx, ids: ids}).load(ctx, limit, from)
		})
	}
	if rehearseMark && len(claim.Events) > 0 {
		if err := rehearse(ctx, tx, func() error { return markAll(ctx, tx, claim.ids) }); err != nil {
			return nil, claim.refused(stepMark, err, markAll)
		}
	}
	if c.lease > 0 && len(claim.Events) > 0 {
		if err := claim.toLease(ctx, c.lease); err != nil {
			return nil, claim.refused(stepLease, err, func(ctx context.Context, tx pgx.Tx, ids []int64) error {
				return leaseAll(ctx, tx, ids, c.lease, uuid.New())
			})
		}
	}
	return claim, nil
}

// refused is err, with all that is needed to find the rows to blame, if any can be.
func (c *Claim) refused(step string, err error, again func(context.Context, pgx.Tx, []int64) error) error {
	if !refused(err) {
		return err
	}
	return &refusedError{step, c.ids, again, err}
}

// markAll marks rows that are locked by tx as published.
func markAll(ctx context.Context, tx pgx.Tx, ids []int64) error {
	tag, err := tx.Exec(ctx, markPublished, ids, nil)
	return changed(tag, err, len(ids))
}

// maxBatchBytes bounds what a batch holds in memory, whatever RELAY_BATCH says: payloads as stored, the rest as it is.
const maxBatchBytes = 4 << 20

// lockRows is the first step, for both kinds of rows. Rows that are due get at most half of the batch,
// and the whole only if no others are there, so that a crowd of failing ones cannot keep fresh ones
// waiting.
func (c *Claim) lockRows(ctx context.Context, limit int, from int64, ready lockQuery) error {
	bytes := 0
	passedOver := c.claimer.refusals.passedOver()
	lock := func(q lockQuery, limit int) error {
		if limit == 0 || bytes > maxBatchBytes {
			return nil
		}
		q = q.without(passedOver)
		var id int64
		var size int
		rows, _ := c.tx.Query(ctx, q.sql, append([]any{limit, from}, q.args...)...)
		_, err := pgx.ForEachRow(rows, []any{&id, &size}, func() error {
			if bytes <= maxBatchBytes { // the first row beyond the bound is still taken: one always is
				c.ids = append(c.ids, id)
			}
			bytes += size
			return nil
		})
		return err
	}
	due := lockQuery{sql: selectDue}
	if err := lock(due, limit/2); err != nil {
		return err
	}
	n := len(c.ids)
	if err := lock(ready, limit-n); err != nil {
		return err
	}
	if len(c.ids) > n {
		c.lowestReady = c.ids[n]
	} else if n == 0 {
		return lock(due, limit)
	}
	return nil
}

const takeLease = `
UPDATE orders.outbox
SET locked_until = now() + $2, lock_token = $3
WHERE id = ANY($1)`

func leaseAll(ctx context.Context, tx pgx.Tx, ids []int64, lease time.Duration, token uuid.UUID) error {
	tag, err := tx.Exec(ctx, takeLease, ids, lease, token)
	return changed(tag, err, len(ids))
}

// toLease turns the locks on Events into a lease, and ends the transaction.
func (c *Claim) toLease(ctx context.Context, lease time.Duration) error {
	c.ids = c.ids[:0]
	for _, e := range c.Events {
		c.ids = append(c.ids, e.ID)
	}
	token := uuid.New()
	if err := leaseAll(ctx, c.tx, c.ids, lease, token); err != nil {
		return err
	}
	if err := c.tx.Commit(ctx); err != nil {
		return err
	}
	c.tx, c.token = nil, &token
	return nil
}

// maxPayload is the largest body a broker takes: 16 MiB is RabbitMQ's default since 4.0.
const maxPayload = 16 << 20

// load is the second step. It keeps up to limit events.
func (c *Claim) load(ctx context.Context, limit int, from int64) error {
	rows, _ := c.tx.Query(ctx, selectBatch, c.ids, from, maxPayload)
	c.Events = make([]Event, 0, min(limit, len(c.ids)))
	seen := map[aggregate]bool{} // among the blocked
	var e Event
	var blocked bool
	_, err := pgx.ForEachRow(rows, append(e.columns(), &blocked), func() error {
		switch {
		case blocked && !seen[e.aggregate()]:
			seen[e.aggregate()] = true
			c.blocked = append(c.blocked, e.aggregate())
		case !blocked && len(c.Events) < limit:
			c.Events = append(c.Events, e)
		}
		return nil
	})
	return err
}
