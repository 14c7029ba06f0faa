package main

import (
	"context"
	"fmt"
	"sync/atomic"
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
SELECT o.id, ` + oSize + `, false
FROM orders.outbox o
WHERE ` + oPending + ` AND o.retry_at <= now() AND ` + oFree + `
  AND (SELECT (w.retry_at, w.id) <= (o.retry_at, o.id) ` + firstWaiting + `)
  AND (SELECT e.id ` + firstReady + `) IS NULL
ORDER BY o.retry_at, o.id
LIMIT $1
FOR UPDATE OF o SKIP LOCKED`

// selectReady finds ready rows in the order in which they were written, and tells whether somebody has
// locked them before: xmax is the last transaction that did. $2 is the scan floor.
const (
	selectReady = ready + inOrder

	ready = `
SELECT o.id, ` + oSize + `, o.xmax <> '0'::xid
FROM orders.outbox o
WHERE ` + oPending + ` AND o.retry_at IS NULL AND o.id >= $2 AND ` + oFree
	inOrder = `
ORDER BY o.id
LIMIT $1
FOR UPDATE OF o SKIP LOCKED`
)

// selectUntouched leaves out what has the mark of a lock, old or new. To see that costs a fifth of
// trying to lock what a peer has locked.
const selectUntouched = ready + ` AND o.xmax = '0'::xid` + inOrder

// selectUnblocked leaves out what is held up: rows of aggregates of which an earlier row waits or is
// leased, and of the aggregates $3, $4. A run of such rows, however long, does not fill the batch then.
const selectUnblocked = ready + `
  AND (o.aggregate_type, o.aggregate_id) NOT IN (SELECT * FROM unnest($3::text[], $4::text[]))
  AND coalesce((SELECT w.id ` + firstWaiting + `), o.id) >= o.id
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

	ids   []int64    // rows that are held: in mode tx also some that are not among Events
	tx    pgx.Tx     // mode tx: what holds them
	token *uuid.UUID // mode lease: what they carry

	refusals *refusals
	round    int  // of refusals, when the claim began
	wide     bool // enough rows were looked at to compare one that is refused with others

	// What was met on the way.
	full       bool        // there was no room for more
	touched    bool        // one of the ready rows had been locked before
	heldUp     []aggregate // of rows that were locked and did not make it into Events
	firstReady int64       // the lowest ready row that was locked, 0 = none
}

// Claimer claims rows in one of the two modes.
type Claimer struct {
	pool    *pgxpool.Pool
	lease   time.Duration // 0 = mode tx
	floor   *floor
	caution caution

	refusals refusals
	careful  atomic.Bool // the next claim rehearses, whatever was refused before
}

const (
	// triesWithin bounds how long one claim tries again because all that it has found is held up.
	triesWithin = time.Second
	// wideTry is how many rows the third try looks at, at least: a batch may be one row. Each one after
	// it looks at twice as many, within maxBatchBytes.
	wideTry = 1000
)

// Claim takes up to limit rows, or none.
func (c *Claimer) Claim(ctx context.Context, limit int) (*Claim, error) {
	began := time.Now()
	next := c.caution.begin()
	doubt := c.refusals.doubtful()
	mark := c.careful.Swap(false) || doubt
	for try := 0; next != nil && time.Since(began) < triesWithin; try++ {
		from, bottom := c.floor.value()
		if bottom && next.sql == selectUntouched {
			next = &form{sql: selectReady}
		}
		wide := limit
		if doubt {
			wide = max(limit, rehearseRows)
		}
		if try >= 2 {
			wide = max(limit, wideTry<<min(try-2, 6))
		}
		held, err := c.try(ctx, limit, wide, from, *next, mark)
		if err != nil {
			return nil, fmt.Errorf("claim: %w", err)
		}
		if bottom {
			c.floor.foundAtTheBottom(held.firstReady)
		}
		if next = c.caution.learn(*next, held); next == nil {
			return held, nil
		}
	}
	return &Claim{}, nil
}

// try locks up to wide rows, with one form of the first step, and keeps up to limit of them. If mark is set it
// makes sure that they can be marked later.
func (c *Claimer) try(ctx context.Context, limit, wide int, from int64, f form, mark bool) (_ *Claim, err error) {
	tx, err := beginAs(ctx, c.pool, beginBatch)
	if err != nil {
		return nil, err
	}
	held := &Claim{tx: tx, refusals: &c.refusals, round: c.refusals.now(), wide: wide >= rehearseRows}
	defer func() {
		if err != nil || len(held.Events) == 0 { // gives back what may be held
			rollback(ctx, tx)
		}
	}()
	if err := held.lockRows(ctx, wide, from, f); err != nil || len(held.ids) == 0 {
		return held, err
	}
	if err := held.load(ctx, limit, from); err != nil {
		return nil, held.refused(stepRead, err, func(ctx context.Context, tx pgx.Tx, ids []int64) error {
			return (&Claim{tx: tx, ids: ids}).load(ctx, limit, from)
		})
	}
	if mark && len(held.Events) > 0 {
		if err := rehearse(ctx, tx, func() error { return markAll(ctx, tx, held.ids) }); err != nil {
			return nil, held.refused(stepMark, err, markAll)
		}
	}
	if c.lease > 0 && len(held.Events) > 0 {
		if err := held.toLease(ctx, c.lease); err != nil {
			return nil, held.refused(stepLease, err, func(ctx context.Context, tx pgx.Tx, ids []int64) error {
				return leaseAll(ctx, tx, ids, c.lease, uuid.New())
			})
		}
	}
	return held, nil
}

// refused is err, with all that is needed to find the rows to blame, if any can be.
func (c *Claim) refused(step string, err error, again func(context.Context, pgx.Tx, []int64) error) error {
	if !refused(err) {
		return err
	}
	return &refusedError{step, c.ids, c.wide, again, err}
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
func (c *Claim) lockRows(ctx context.Context, limit int, from int64, ready form) error {
	bytes := 0
	passed := c.refusals.passedOver()
	lock := func(f form, limit int) error {
		f = f.without(passed)
		if limit == 0 || bytes > maxBatchBytes {
			return nil
		}
		var id int64
		var size int
		var touched bool
		rows, _ := c.tx.Query(ctx, f.sql, append([]any{limit, from}, f.more...)...)
		_, err := pgx.ForEachRow(rows, []any{&id, &size, &touched}, func() error {
			if bytes <= maxBatchBytes { // the first row beyond the bound is still taken: one always is
				c.ids = append(c.ids, id)
			}
			bytes += size
			c.touched = c.touched || touched
			return nil
		})
		return err
	}
	due := form{sql: selectDue}
	if err := lock(due, limit/2); err != nil {
		return err
	}
	n := len(c.ids)
	if err := lock(ready, limit-n); err != nil {
		return err
	}
	if len(c.ids) > n {
		c.firstReady = c.ids[n]
	} else if n == 0 {
		if err := lock(due, limit); err != nil {
			return err
		}
	}
	c.full = len(c.ids) == limit || bytes > maxBatchBytes
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
	seen := map[aggregate]bool{} // among those held up
	var e Event
	var heldUp bool
	_, err := pgx.ForEachRow(rows, append(e.columns(), &heldUp), func() error {
		switch {
		case heldUp && !seen[e.aggregate()]:
			seen[e.aggregate()] = true
			c.heldUp = append(c.heldUp, e.aggregate())
		case !heldUp && len(c.Events) < limit:
			c.Events = append(c.Events, e)
		}
		return nil
	})
	return err
}
