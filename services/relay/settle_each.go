package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// eachSettled is what became of rows that were settled row by row.
type eachSettled struct {
	rows    held    // those that were still pending and this relay's
	marked  *sieve  // as published
	toBlame []int64 // refused to be marked, so they have failed
	unclear []heldRow
	written writtenEach // the failures
}

// settleEach settles rows that could not be settled together, in a new transaction. Those that the database refuses
// are found, and cost the others nothing. done is what is settled already.
//
// In mode tx nothing holds the rows for a moment between the two transactions. This relay's other worker gives them back
// if it claims them then (publishBatch); a peer may publish them once more, in the same order, and they are left to it.
func (c *Claim) settleEach(ctx context.Context, pool *pgxpool.Pool, left unsettled, done Settled, maxAttempts int) (Settled, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sieveTimeout)
	defer cancel()
	tx, err := beginAs(ctx, pool, beginRowByRow)
	if err != nil {
		return done, fmt.Errorf("settle: %w", err)
	}
	defer rollback(ctx, tx)
	each, err := c.writeRowByRow(ctx, tx, left, done.Published > 0, maxAttempts)
	if err == nil {
		err = tx.Commit(ctx)
	}
	if err != nil {
		return done, fmt.Errorf("settle: %w", err)
	}
	markedBefore := 0
	if len(left.published) > 0 { // of these some may have been marked before: that of a statement is known only by its number
		markedBefore = done.Published
	}
	done.Stale += left.rows() - markedBefore - len(each.rows.among(left.published)) - len(each.rows.among(left.failed.ids))
	done.Published += len(each.marked.good)
	done.countFailed(each.written.dead)
	done.Aside += len(each.toBlame) + len(each.unclear)
	c.refusals.aside(stepMark, each.toBlame, each.marked.refused, each.written)
	if err := c.refusals.unexplained(stepMark, each.unclear, each.marked.refused); err != nil {
		return done, fmt.Errorf("settle: %w", err)
	}
	return done, nil
}

// writeRowByRow does the writing. good says that rows of the batch were accepted before.
func (c *Claim) writeRowByRow(ctx context.Context, tx pgx.Tx, left unsettled, good bool, maxAttempts int) (e eachSettled, err error) {
	if e.rows, err = c.lockAgain(ctx, tx, slices.Concat(left.published, left.failed.ids, left.rest)); err != nil {
		return e, err
	}
	e.marked = newSieve(tx)
	err = e.marked.apply(ctx, e.rows.among(left.published), func(ids []int64) error {
		tag, err := tx.Exec(ctx, markPublished, ids, c.token)
		return changed(tag, err, len(ids))
	})
	if err != nil {
		return e, err
	}
	failed := left.failed.only(e.rows.among(left.failed.ids))
	toBlame, unclear := c.refusals.judge(good || len(e.marked.good) > 0, e.rows.of(e.marked.refused))
	for _, row := range toBlame {
		e.toBlame = append(e.toBlame, row.id)
		failed.add(row.id, row.attempts, fmt.Sprintf("published, but it %s: %v", cannot[stepMark], e.marked.refused[row.id]))
	}
	e.unclear = unclear
	if e.written, err = writeEach(ctx, tx, failed, c.token, maxAttempts); err != nil {
		return e, err
	}
	if c.token == nil {
		return e, nil
	}
	rest := slices.DeleteFunc(e.rows.among(left.rest), func(id int64) bool {
		return slices.Contains(left.published, id) || slices.Contains(left.failed.ids, id)
	})
	return e, newSieve(tx).apply(ctx, rest, func(ids []int64) error { // one that is refused is free when its lease has run out
		_, err := tx.Exec(ctx, release, ids, c.token)
		return err
	})
}

// lockAgain locks the rows that are still this relay's. In mode tx it waits a moment for the other worker, which may have claimed
// them and gives them back.
func (c *Claim) lockAgain(ctx context.Context, tx pgx.Tx, ids []int64) (rows held, err error) {
	if c.token == nil {
		err = inSavepoint(ctx, tx, func() error {
			rows, err = lockHeld(ctx, tx, waitForOurs, ids, nil)
			return err
		})
		if !refused(err) {
			return rows, err
		}
	}
	return lockHeld(ctx, tx, lockOurs, ids, c.token)
}
