package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A settle writes down what became of the events of a batch. There is one for both claim modes. In mode tx it ends the transaction that holds the rows; in mode lease
// every statement asks for the token, so that a relay which slept past its lease changes nothing.

// markPublished takes the events the broker has confirmed. $2 is the lease token, NULL in mode tx. A row that
// somebody has marked dead meanwhile stays dead.
const markPublished = `
UPDATE orders.outbox
SET published_at = clock_timestamp(), locked_until = NULL, lock_token = NULL
WHERE id = ANY($1) AND published_at IS NULL AND dead_lettered_at IS NULL AND ($2::uuid IS NULL OR lock_token = $2)`

// markFailed counts an attempt and says when to try again, or, after attempt $5, never.
const markFailed = `
UPDATE orders.outbox o
SET attempt_count = least(o.attempt_count + 1, 1000000), last_error = f.error, locked_until = NULL, lock_token = NULL,
    retry_at = CASE WHEN o.attempt_count + 1 < $5 THEN clock_timestamp() + f.delay END,
    dead_lettered_at = CASE WHEN o.attempt_count + 1 >= $5 THEN clock_timestamp() END
FROM unnest($1::bigint[], $3::text[], $4::interval[]) AS f (id, error, delay)
WHERE o.id = f.id AND o.published_at IS NULL AND o.dead_lettered_at IS NULL AND ($2::uuid IS NULL OR o.lock_token = $2)
RETURNING o.id, o.dead_lettered_at IS NOT NULL`

// release gives back what was neither: not sent behind a failed event, or of unknown outcome.
const release = `
UPDATE orders.outbox
SET locked_until = NULL, lock_token = NULL
WHERE id = ANY($1) AND published_at IS NULL AND dead_lettered_at IS NULL AND lock_token = $2`

// Settled counts what a settle has done, in rows.
type Settled struct {
	Published, Failed, Dead int
	// Stale rows had a result, but were not this relay's or not pending any more: nothing was changed.
	Stale int
	// Refused are rows that the database refused to change or to read. Those whose attempt could be counted are among Failed.
	Refused int
}

// Settle writes the results down, one for each of Events: it is published if results[i] is nil, has failed if it is
// an *attemptError, and is given back otherwise. Rows that the database refuses to change are found, and do not
// keep the others from being settled. If it returns an error, what Settled counts is written and the rest is not;
// the events are then published again, and the inbox sees the duplicates.
func (c *Claim) Settle(ctx context.Context, pool *pgxpool.Pool, results []error, maxAttempts int) (Settled, error) {
	if len(c.Events) == 0 {
		return Settled{}, nil
	}
	published, failed := sortResults(c.Events, results)
	settled, left, err := c.settleTogether(ctx, pool, published, failed, maxAttempts)
	switch {
	case refused(err):
		c.claimer.refusals.met()
		left = unsettled{published: published, failed: failed}
		if c.token != nil {
			left.rest = c.ids
		}
	case err != nil:
		return Settled{}, fmt.Errorf("settle: %w", err)
	case settled.Published > 0:
		c.claimer.refusals.accepted()
	}
	if left.rows() == 0 {
		return settled, nil
	}
	return c.settleEach(ctx, pool, left, settled, maxAttempts)
}

// unsettled are rows that a settle has not changed.
type unsettled struct {
	published []int64
	failed    failures
	rest      []int64 // mode lease: those to give back are among them
}

func (u unsettled) rows() int { return len(u.published) + len(u.failed.ids) }

// settleTogether settles the whole batch with a statement for each kind of result.
func (c *Claim) settleTogether(ctx context.Context, pool *pgxpool.Pool, published []int64, failed failures, maxAttempts int) (s Settled, left unsettled, err error) {
	tx := c.tx
	if tx == nil {
		if tx, err = beginAs(ctx, pool, beginBatch); err != nil {
			return s, left, err
		}
	}
	defer rollback(ctx, tx)
	tag, err := tx.Exec(ctx, markPublished, published, c.token)
	if err != nil {
		return Settled{}, left, err
	}
	if s.Published = int(tag.RowsAffected()); s.Published < len(published) {
		left.published = published
	}
	if len(failed.ids) > 0 {
		dead, err := failed.write(ctx, tx, c.token, maxAttempts)
		if err != nil {
			return Settled{}, left, err
		}
		s.countFailed(dead)
		left.failed = failed.without(dead)
	}
	if c.token != nil {
		if _, err := tx.Exec(ctx, release, c.ids, c.token); err != nil {
			return Settled{}, left, err
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return Settled{}, left, err
	}
	return s, left, nil
}

func (s *Settled) countFailed(dead map[int64]bool) {
	s.Failed += len(dead)
	for _, d := range dead {
		if d {
			s.Dead++
		}
	}
}

// attemptError is a failure that is the event's own and counts as an attempt.
type attemptError struct {
	reason string // one word, for the metric
	text   string // for people
}

func (e *attemptError) Error() string { return e.text }

// failures are the columns of the rows that have failed.
type failures struct {
	ids    []int64
	errors []string
	delays []time.Duration
}

// maxError bounds the text that is kept of an error, in bytes.
const maxError = 2000

// add puts in a row that has failed attempts times before.
func (f *failures) add(id int64, attempts int, text string) {
	f.ids = append(f.ids, id)
	f.errors = append(f.errors, strings.ToValidUTF8(text[:min(len(text), maxError)], ""))
	f.delays = append(f.delays, retryDelay(attempts))
}

// keep keeps the rows for which keep is true.
func (f failures) keep(keep func(id int64) bool) (kept failures) {
	for i, id := range f.ids {
		if keep(id) {
			kept.ids, kept.errors, kept.delays = append(kept.ids, id), append(kept.errors, f.errors[i]), append(kept.delays, f.delays[i])
		}
	}
	return kept
}

// only keeps these ids.
func (f failures) only(ids []int64) failures {
	return f.keep(func(id int64) bool { return slices.Contains(ids, id) })
}

// without leaves out the rows that were written.
func (f failures) without(written map[int64]bool) failures {
	return f.keep(func(id int64) bool { _, ok := written[id]; return !ok })
}

// write marks the rows as failed. It returns those it has changed, and whether they are dead now.
func (f failures) write(ctx context.Context, tx pgx.Tx, token any, maxAttempts int) (dead map[int64]bool, err error) {
	dead = make(map[int64]bool, len(f.ids))
	rows, _ := tx.Query(ctx, markFailed, f.ids, token, f.errors, f.delays, maxAttempts)
	var id int64
	var died bool
	_, err = pgx.ForEachRow(rows, []any{&id, &died}, func() error { dead[id] = died; return nil })
	return dead, err
}

func sortResults(events []Event, results []error) (published []int64, failed failures) {
	for i, e := range events {
		if results[i] == nil {
			published = append(published, e.ID)
		} else if attempt := (*attemptError)(nil); errors.As(results[i], &attempt) {
			failed.add(e.ID, int(e.AttemptCount), attempt.Error())
		}
	}
	return published, failed
}

const (
	firstRetry = time.Second
	maxRetry   = 5 * time.Minute
)

// retryDelay is a random time up to 1 s, 2 s, 4 s … 5 min, by the number of attempts before. The
// full range is random ("full jitter"), so that rows that failed together do not come back together.
func retryDelay(attempts int) time.Duration {
	limit := maxRetry
	if attempts < 9 { // 2^9 s is above the limit
		limit = min(maxRetry, firstRetry<<attempts)
	}
	return rand.N(limit)
}
