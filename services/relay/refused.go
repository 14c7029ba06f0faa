package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
)

// When the database refuses a claim, the rows to blame are found here and got out of the way of the others. Such a row has
// failed, and waits for its next try like any event that has failed, until it is dead. If not even that can be
// written, or if the error may be the server's, the relay passes the row over for a while.

// What the relay was doing with rows when the database refused; the label of relay_refused_rows_total.
const (
	stepRead    = "read"    // its columns, for a claim
	stepMark    = "mark"    // as published
	stepLease   = "lease"   // in claim mode lease
	stepAttempt = "attempt" // writing down that it has failed
	stepDelete  = "delete"  // pruning
)

// cannot says for each step what is wrong with a row, for people.
var cannot = map[string]string{
	stepRead: "cannot be read", stepMark: "cannot be marked as published", stepLease: "cannot be leased",
	stepAttempt: "cannot be marked as failed", stepDelete: "cannot be deleted",
}

// step does something with some of the rows, all of which tx has locked.
type step func(ctx context.Context, tx pgx.Tx, ids []int64) error

// refusedError ends a claim of rows because the database refuses a step for all of them together.
type refusedError struct {
	step  string
	ids   []int64
	again step
	cause error
}

func (e *refusedError) Error() string { return "rows " + cannot[e.step] + ": " + e.cause.Error() }
func (e *refusedError) Unwrap() error { return e.cause }

// claimRounds bounds how often a claim is repeated after rows were got out of its way.
const claimRounds = 10

// claim takes rows, and gets those out of the way that the database refuses: refused counts these.
func (r *Relay) claim(ctx context.Context, limit int, rehearse bool) (claim *Claim, refused int, err error) {
	withoutSuccess := 0
	for range claimRounds {
		claim, err := r.claimOnce(ctx, limit, rehearse)
		e, ok := errors.AsType[*refusedError](err)
		if !ok {
			return claim, refused, err
		}
		n, err := r.claimer.isolate(ctx, e, r.maxAttempts)
		refused += n
		if err != nil {
			return nil, refused, err
		}
		if withoutSuccess++; n > 0 {
			withoutSuccess = 0
		}
		if withoutSuccess == 3 { // each of them can be used, and all together cannot
			return nil, refused, e
		}
	}
	return &Claim{}, refused, nil
}

// claimOnce takes rows, after the scan floor was raised as far as it may be.
func (r *Relay) claimOnce(ctx context.Context, limit int, rehearse bool) (*Claim, error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	if err := r.claimer.floor.raise(ctx, r.pool); err != nil {
		return nil, fmt.Errorf("scan floor: %w", err)
	}
	return r.claimer.Claim(ctx, limit, rehearse)
}

// isolate finds the rows to blame for a claim that was refused. It returns how many were got out of the way. The
// error says that the rows are not to blame, or that the server is in trouble.
func (c *Claimer) isolate(ctx context.Context, e *refusedError, maxAttempts int) (n int, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bisectTimeout)
	defer cancel()
	tx, err := beginAs(ctx, c.pool, beginRowByRow)
	if err != nil {
		return 0, err
	}
	defer rollback(ctx, tx)
	ours, err := lockRowsOfOurs(ctx, tx, e.ids, nil)
	if err != nil {
		return 0, err
	}
	found := newBisection(tx)
	err = rehearse(ctx, tx, func() error {
		return found.apply(ctx, ours.among(e.ids), func(ids []int64) error { return e.again(ctx, tx, ids) })
	})
	if err != nil {
		return 0, err
	}
	blame, err := c.judge(ctx, tx, e.step, found, e.again)
	if err != nil {
		return 0, err
	}
	failed := failures{}
	for _, id := range blame.failed {
		failed.add(id, ours[id], fmt.Sprintf("%s, so it is not sent: %v", cannot[e.step], found.refused[id]))
	}
	written, err := writeEach(ctx, tx, failed, nil, maxAttempts)
	if err != nil {
		return 0, err
	}
	if err := tx.Commit(ctx); err != nil {
		return 0, err
	}
	c.refusals.note(e.step, blame, found, written)
	return len(blame.failed) + len(blame.passed), nil
}

// judge decides about the rows that were refused. If none was accepted beside them, the same step is rehearsed with other rows.
// Its error says that nothing shows that these rows are to blame.
func (c *Claimer) judge(ctx context.Context, tx pgx.Tx, step string, found *bisection, again step) (blamed, error) {
	compared := someAccepted
	if len(found.accepted) == 0 && found.lastWhy != nil {
		var err error
		if compared, err = c.compare(ctx, tx, slices.Concat(found.refusedIDs(), found.untried), again); err != nil {
			return blamed{}, err
		}
	}
	return c.refusals.judge(step, compared, found)
}

// selectOthers finds pending rows besides $1 to compare with: some that wait for their next try, and of the ready ones from $2 up
// the last ones and some in between, by chance. Neighbours of rows that are refused are often refused, too.
const selectOthers = `
WITH ready AS MATERIALIZED (
    SELECT (SELECT o.id FROM orders.outbox o WHERE ` + oPending + ` AND o.retry_at IS NULL AND o.id >= $2 ORDER BY o.id LIMIT 1) AS lowest,
           (SELECT o.id FROM orders.outbox o WHERE ` + oPending + ` AND o.retry_at IS NULL AND o.id >= $2 ORDER BY o.id DESC LIMIT 1) AS highest
), places AS MATERIALIZED (
    SELECT lowest + floor(random() * (highest - lowest + 1))::bigint AS id FROM ready, generate_series(1, 60)
), others AS (
    SELECT (SELECT o.id FROM orders.outbox o WHERE ` + oPending + ` AND o.retry_at IS NULL AND o.id >= p.id ORDER BY o.id LIMIT 1) AS id FROM places p
    UNION (SELECT o.id FROM orders.outbox o WHERE ` + oPending + ` AND o.retry_at IS NULL AND o.id >= $2 ORDER BY o.id DESC LIMIT 20)
    UNION (SELECT o.id FROM orders.outbox o WHERE ` + oPending + ` AND o.retry_at IS NOT NULL ORDER BY o.retry_at DESC LIMIT 20)
)
SELECT o.id
FROM orders.outbox o
WHERE o.id IN (SELECT id FROM others) AND o.id <> ALL($1) AND ` + oPending + ` AND ` + oFree + `
FOR UPDATE OF o SKIP LOCKED`

// compare finds out whether the database accepts the step for any of other pending rows. It changes nothing.
func (c *Claimer) compare(ctx context.Context, tx pgx.Tx, besides []int64, again step) (comparison, error) {
	from, _ := c.floor.value()
	rows, _ := tx.Query(ctx, selectOthers, besides, from)
	others, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil || len(others) == 0 {
		return noOthers, err
	}
	found := newBisection(tx)
	err = rehearse(ctx, tx, func() error {
		return found.apply(ctx, others, func(ids []int64) error {
			if len(found.accepted) > 0 {
				return nil // one is enough
			}
			return again(ctx, tx, ids)
		})
	})
	if len(found.accepted) > 0 {
		return someAccepted, err
	}
	return allRefused, err
}

// writtenEach is what became of failures that were written down row by row.
type writtenEach struct {
	dead map[int64]bool  // the written ones: whether they are dead now
	not  map[int64]error // nothing can be written to these
	why  error           // for one of them
}

// writeEach counts the attempts of rows that are locked by tx, as far as the database lets it.
func writeEach(ctx context.Context, tx pgx.Tx, failed failures, token any, maxAttempts int) (writtenEach, error) {
	w := writtenEach{dead: map[int64]bool{}}
	b := newBisection(tx)
	err := b.apply(ctx, failed.ids, func(ids []int64) error {
		dead, err := failed.only(ids).write(ctx, tx, token, maxAttempts)
		if err == nil && len(dead) < len(ids) {
			err = errLeftAsItWas
		}
		if err == nil {
			maps.Copy(w.dead, dead)
		}
		return err
	})
	w.not, w.why = b.refused, b.lastWhy
	return w, err
}

// without leaves out those of ids that are among m.
func without[V any](ids []int64, m map[int64]V) []int64 {
	return slices.DeleteFunc(slices.Clone(ids), func(id int64) bool { _, found := m[id]; return found })
}
