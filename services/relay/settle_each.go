package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/pkg/postgres"
)

// eachSettled is what became of rows that were settled row by row.
type eachSettled struct {
	ours    attempts    // of those that were still pending and this relay's
	marked  *bisection  // as published
	blame   blamed      // of those refused to be marked
	written writtenEach // the failures
}

// settleEach settles rows that could not be settled together, in a new transaction. Those that the database refuses
// are found, and cost the others nothing. done is what is settled already.
//
// In mode tx nothing holds the rows for a moment between the two transactions. A peer that claims them then
// may publish them once more, in the same order, and they are left to it.
func (c *Claim) settleEach(ctx context.Context, pool *pgxpool.Pool, left unsettled, done Settled, maxAttempts int) (Settled, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bisectTimeout)
	defer cancel()
	tx, err := beginAs(ctx, pool, beginRowByRow)
	if err != nil {
		return done, fmt.Errorf("settle: %w", err)
	}
	defer rollback(ctx, tx)
	each, outage, err := c.writeRowByRow(ctx, tx, left, done.Published > 0, maxAttempts)
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
	done.Stale += left.rows() - markedBefore - len(each.ours.among(left.published)) - len(each.ours.among(left.failed.ids))
	done.Published += len(each.marked.accepted)
	done.countFailed(each.written.dead)
	done.Refused += len(each.blame.failed) + len(each.blame.passed)
	c.claimer.refusals.note(stepMark, each.blame, each.marked, each.written)
	if outage != nil {
		return done, fmt.Errorf("settle: %w", outage)
	}
	return done, nil
}

// writeRowByRow does the writing. compared says that rows of the batch were accepted before. An outage is an error that none of
// the rows is to blame for; what could be written is to be committed all the same.
func (c *Claim) writeRowByRow(ctx context.Context, tx pgx.Tx, left unsettled, compared bool, maxAttempts int) (e eachSettled, outage, err error) {
	if e.ours, err = lockRowsOfOurs(ctx, tx, slices.Concat(left.published, left.failed.ids, left.rest), c.token); err != nil {
		return e, nil, err
	}
	e.marked = newBisection(tx)
	err = e.marked.apply(ctx, e.ours.among(left.published), func(ids []int64) error {
		tag, err := tx.Exec(ctx, markPublished, ids, c.token)
		return changed(tag, err, len(ids))
	})
	if err != nil {
		return e, nil, err
	}
	if compared {
		e.blame, outage = c.claimer.refusals.judge(stepMark, someAccepted, e.marked)
	} else {
		e.blame, outage = c.claimer.judge(ctx, tx, stepMark, e.marked, markAll)
	}
	failed := left.failed.only(e.ours.among(left.failed.ids))
	for _, id := range e.blame.failed {
		failed.add(id, e.ours[id], fmt.Sprintf("published, but it %s: %v", cannot[stepMark], e.marked.refused[id]))
	}
	if e.written, err = writeEach(ctx, tx, failed, c.token, maxAttempts); err != nil {
		return e, nil, err
	}
	if outage == nil && !compared && len(e.marked.accepted)+len(e.written.dead) == 0 && postgres.BlameFor(e.written.why) != postgres.Statement {
		outage = fmt.Errorf("no row %s: %w", strings.Replace(cannot[stepAttempt], "cannot", "can", 1), e.written.why)
	}
	if c.token == nil {
		return e, outage, nil
	}
	rest := without(without(e.ours.among(left.rest), e.marked.refused), e.written.not)
	return e, outage, c.giveBack(ctx, tx, slices.DeleteFunc(rest, func(id int64) bool {
		return slices.Contains(left.published, id) || slices.Contains(left.failed.ids, id)
	}))
}

// giveBack ends the lease of rows that were not sent. One that is refused is free when its lease has run out.
func (c *Claim) giveBack(ctx context.Context, tx pgx.Tx, ids []int64) error {
	return newBisection(tx).apply(ctx, ids, func(ids []int64) error {
		_, err := tx.Exec(ctx, release, ids, c.token)
		return err
	})
}
