package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// This file answers: what is written down about a batch once the fate of its events is known? One
// settle for both claim modes. In mode tx it ends the transaction that holds the rows; in mode lease
// every statement asks for the token, so that a relay which slept past its lease changes nothing.

// markPublished takes the events the broker has confirmed. $2 is the lease token, NULL in mode tx.
const markPublished = `
UPDATE orders.outbox
SET published_at = clock_timestamp(), locked_until = NULL, lock_token = NULL
WHERE id = ANY($1) AND published_at IS NULL AND ($2::uuid IS NULL OR lock_token = $2)`

// markFailed counts an attempt and says when to try again, or, after attempt $5, never.
const markFailed = `
UPDATE orders.outbox o
SET attempt_count = least(o.attempt_count + 1, 1000000), last_error = f.error, locked_until = NULL, lock_token = NULL,
    retry_at = CASE WHEN o.attempt_count + 1 < $5 THEN clock_timestamp() + f.delay END,
    dead_lettered_at = CASE WHEN o.attempt_count + 1 >= $5 THEN clock_timestamp() END
FROM unnest($1::bigint[], $3::text[], $4::interval[]) AS f (id, error, delay)
WHERE o.id = f.id AND o.published_at IS NULL AND ($2::uuid IS NULL OR o.lock_token = $2)
RETURNING o.dead_lettered_at IS NOT NULL`

// release gives back what was neither: held back behind a failed event, or of unknown fate.
const release = `
UPDATE orders.outbox
SET locked_until = NULL, lock_token = NULL
WHERE id = ANY($1) AND lock_token = $2`

// Settled counts what a settle has done, in rows.
type Settled struct {
	Published, Failed, Dead int
	// Stale rows had a result, but another relay holds them by now: nothing was changed.
	Stale int
}

// Settle writes the results down, one for each of Events: it is published if results[i] is nil, has failed if it is
// an *attemptError, and is given back otherwise. If it returns an error nothing is known to be
// written; the events are then published again, and the inbox sees the duplicates.
func (c *Claim) Settle(ctx context.Context, pool *pgxpool.Pool, results []error, maxAttempts int) (settled Settled, err error) {
	if len(c.Events) == 0 {
		return settled, nil
	}
	tx := c.tx
	if tx == nil {
		if tx, err = pool.Begin(ctx); err != nil {
			return settled, fmt.Errorf("settle: %w", err)
		}
	}
	defer rollback(ctx, tx)
	if settled, err = c.write(ctx, tx, results, maxAttempts); err != nil {
		return Settled{}, fmt.Errorf("settle: %w", err)
	}
	if err := tx.Commit(ctx); err != nil {
		return Settled{}, fmt.Errorf("settle: %w", err)
	}
	return settled, nil
}

func (c *Claim) write(ctx context.Context, tx pgx.Tx, results []error, maxAttempts int) (s Settled, err error) {
	published, failed := sortResults(c.Events, results)
	tag, err := tx.Exec(ctx, markPublished, published, c.token)
	if err != nil {
		return s, err
	}
	s.Published = int(tag.RowsAffected())
	if len(failed.ids) > 0 {
		rows, _ := tx.Query(ctx, markFailed, failed.ids, c.token, failed.errors, failed.delays, maxAttempts)
		dead, err := pgx.CollectRows(rows, pgx.RowTo[bool])
		if err != nil {
			return s, err
		}
		s.Failed = len(dead)
		for _, d := range dead {
			if d {
				s.Dead++
			}
		}
	}
	s.Stale = len(published) + len(failed.ids) - s.Published - s.Failed
	if c.token != nil {
		if _, err := tx.Exec(ctx, release, c.ids, c.token); err != nil {
			return s, err
		}
	}
	return s, nil
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

func sortResults(events []Event, results []error) (published []int64, failed failures) {
	for i, e := range events {
		if results[i] == nil {
			published = append(published, e.ID)
		} else if attempt := (*attemptError)(nil); errors.As(results[i], &attempt) {
			failed.ids = append(failed.ids, e.ID)
			failed.errors = append(failed.errors, attempt.Error())
			failed.delays = append(failed.delays, retryDelay(int(e.AttemptCount)))
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
