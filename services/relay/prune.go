package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/pkg/service"
)

// This file answers: how does the outbox stay small? Rows that were published longer ago than
// RELAY_RETENTION are deleted, in small transactions, by one relay at a time. Dead rows stay until a
// person has dealt with them.

const (
	pruneEvery = time.Minute
	pruneBatch = 5000
	// pruneLock keeps all relays but one from pruning at the same time; it lasts one transaction.
	pruneLock = 8_170_042_004
)

// deletePublished finds old rows by their event id, which begins with the time: a row published
// before the limit was written before it, so the index on event_id leads to it and to few others.
const deletePublished = `
DELETE FROM orders.outbox
WHERE id IN (SELECT id
             FROM orders.outbox
             WHERE event_id < (lpad(to_hex((extract(epoch FROM now() - $1::interval) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
               AND published_at < now() - $1::interval
             ORDER BY event_id
             LIMIT $2)`

// prune deletes old rows now and every minute until ctx ends.
func prune(ctx context.Context, pool *pgxpool.Pool, retention time.Duration, log *slog.Logger) {
	for ctx.Err() == nil {
		total, err := pruneAll(ctx, pool, retention)
		if total > 0 {
			log.Info(fmt.Sprintf("pruned %d events published more than %v ago", total, retention), "pruned", total)
		}
		if err != nil && ctx.Err() == nil {
			log.Debug("pruning: "+err.Error(), "err", err) // the relay itself says when the database is away
		}
		service.Wait(ctx, pruneEvery)
	}
}

// pruneAll deletes batch after batch until there is nothing more to delete, or another relay is at it.
func pruneAll(ctx context.Context, pool *pgxpool.Pool, retention time.Duration) (total int64, err error) {
	for {
		n, err := pruneOnce(ctx, pool, retention)
		total += n
		if err != nil || n < pruneBatch {
			return total, err
		}
	}
}

func pruneOnce(ctx context.Context, pool *pgxpool.Pool, retention time.Duration) (n int64, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var mine bool
		if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, int64(pruneLock)).Scan(&mine); err != nil || !mine {
			return err
		}
		tag, err := tx.Exec(ctx, deletePublished, retention, pruneBatch)
		n = tag.RowsAffected()
		return err
	})
	return n, err
}
