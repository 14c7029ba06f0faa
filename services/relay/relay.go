package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/pkg/crash"
	"example.com/outboxlab/pkg/postgres"
)

// This file answers: how does an event get from the outbox to the broker without being lost?
//
//	claim    lock pending rows                            crash: the locks go with the connection
//	publish  send all, wait for each one's confirm        crash: published again, same event id
//	settle   mark the confirmed ones, commit              crash: as above, until the commit
//
// The three are one transaction, so a row is marked only by the relay that holds it, and only
// after the broker has it. Rows are claimed by state (not published yet), never by "last id
// seen": a lower id can be committed after a higher one. From here the walk goes on to rabbitmq.go.

// Relay moves events from the outbox to a transport.
type Relay struct {
	pool  *pgxpool.Pool
	open  func(context.Context) (Transport, error)
	batch int           // most rows per transaction
	poll  time.Duration // how long to wait when there is nothing to do
	log   *slog.Logger

	connected atomic.Bool
}

// Ready tells whether database and broker can be used.
func (r *Relay) Ready(ctx context.Context) error {
	if !r.connected.Load() {
		return errors.New("no session with the broker")
	}
	return postgres.Ready(ctx, r.pool)
}

// session publishes over one transport session until that breaks or ctx ends. A batch under way
// when ctx ends is finished and settled: its publishing is bounded in time.
func (r *Relay) session(ctx context.Context, up func()) error {
	transport, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer transport.Close()
	r.connected.Store(true)
	defer r.connected.Store(false)
	for ctx.Err() == nil {
		done, err := r.publishBatch(ctx, transport)
		if err != nil {
			return err
		}
		up()
		if done.claimed == r.batch && done.failed == 0 {
			continue // there is probably more
		}
		if err := r.idle(ctx, transport); err != nil {
			return err
		}
	}
	return nil
}

// idle waits for one poll interval, or less if ctx or the session ends.
func (r *Relay) idle(ctx context.Context, transport Transport) error {
	timer := time.NewTimer(r.poll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-transport.Broken():
		return errors.New("session closed by the broker")
	case <-timer.C:
		return nil
	}
}

// outcome of one batch, in rows.
type outcome struct{ claimed, failed int }

// databaseTimeout bounds what a batch asks of the database, over and above its publishing.
const databaseTimeout = 10 * time.Second

// publishBatch is the transaction: claim, publish, settle. It returns how many rows it claimed and
// how many of them the broker did not take; those stay pending.
func (r *Relay) publishBatch(ctx context.Context, transport Transport) (done outcome, err error) {
	// A stop request must not cut a batch in half: what has been sent should also be marked.
	ctx = context.WithoutCancel(ctx)
	claiming, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	tx, err := r.pool.Begin(claiming)
	if err != nil {
		return done, fmt.Errorf("database: %w", err)
	}
	defer func() {
		if rollback := tx.Rollback(ctx); err == nil && !errors.Is(rollback, pgx.ErrTxClosed) {
			err = rollback
		}
	}()
	batch, err := claim(claiming, tx, r.batch)
	if err != nil || len(batch) == 0 {
		return done, err
	}
	done.claimed = len(batch)
	crash.At(crash.RelayAfterClaim, orderIDs(batch)...)

	results, broken := transport.Publish(ctx, batch)
	published, failed := split(batch, results)
	done.failed = len(failed)
	r.tell(published, failed)
	crash.At(crash.RelayAfterPublish, orderIDs(published)...)

	settling, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	if err := settle(settling, tx, published); err != nil {
		return done, errors.Join(broken, err)
	}
	crash.At(crash.RelayAfterMark, orderIDs(published)...)
	return done, broken
}

const claimPending = `
SELECT id, event_id, aggregate_type, aggregate_id, event_type, event_version,
       payload, tenant_id, traceparent, created_at
FROM orders.outbox
WHERE published_at IS NULL
ORDER BY id
LIMIT $1
FOR UPDATE SKIP LOCKED`

// claim locks up to limit pending rows for tx, in the order in which they were written. Rows that
// another relay holds are passed over; if that relay dies, its locks die with it.
func claim(ctx context.Context, tx pgx.Tx, limit int) ([]Event, error) {
	rows, _ := tx.Query(ctx, claimPending, limit)
	batch, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Event])
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	return batch, nil
}

const markPublished = `
UPDATE orders.outbox
SET published_at = now()
WHERE id = ANY($1)`

// settle marks the events that the broker has confirmed and ends the transaction, which frees the
// others. If the commit fails the events are published again, and the inbox sees the duplicates.
func settle(ctx context.Context, tx pgx.Tx, published []Event) error {
	ids := make([]int64, len(published))
	for i, e := range published {
		ids[i] = e.ID
	}
	if _, err := tx.Exec(ctx, markPublished, ids); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	return nil
}
