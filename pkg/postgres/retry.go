package postgres

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// This file does work again that has certainly not been done, a bounded number of times.

const (
	// maxTries is how often one piece of work is tried.
	maxTries = 10
	// firstPause and maxPause are between two tries, so that two who block each other come apart.
	firstPause, maxPause = 2 * time.Millisecond, 100 * time.Millisecond
)

// Tx runs do in one READ COMMITTED transaction and commits it. If the transaction has certainly not happened, and may well
// succeed at once (a deadlock, a statement prepared before ALTER TABLE, a connection that broke before COMMIT
// was sent), all of it is done again, at most 10 times; so do must have no other effects. If the connection breaks during
// COMMIT nobody knows the outcome, and nothing is repeated: the error is one for which Unreachable is true.
func Tx(ctx context.Context, pool *pgxpool.Pool, do func(pgx.Tx) error) error {
	return again(ctx, pool, func() (safe bool, err error) {
		committing := false
		err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			err := do(tx)
			committing = err == nil
			return err
		})
		return !committing, err
	})
}

// Read runs a query that changes nothing, and again as Tx does.
func Read(ctx context.Context, pool *pgxpool.Pool, query func() error) error {
	return again(ctx, pool, func() (safe bool, err error) { return true, query() })
}

// again runs try until it succeeds or is of no use. safe says that a connection that breaks has taken no work with it.
func again(ctx context.Context, pool *pgxpool.Pool, try func() (safe bool, err error)) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = firstPause, maxPause
	tries := 0
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		safe, err := try()
		tries++
		stale := staleConnection(err)
		if err == nil || !CertainlyNotDone(err) && !(safe && stale) {
			return struct{}{}, permanent(err)
		}
		if stale && tries == 2 {
			pool.Reset() // the others are of the same age
		}
		return struct{}{}, err
	}, backoff.WithMaxTries(maxTries), backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(0))
	return err
}

func permanent(err error) error {
	if err == nil {
		return nil
	}
	return backoff.Permanent(err)
}
