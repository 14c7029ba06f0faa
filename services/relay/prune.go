package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/pkg/service"
)

// How the outbox stays small: rows that were published longer ago than RELAY_RETENTION are deleted, page by
// page in small transactions, by one relay at a time. Dead rows stay until a person has dealt with them.

const (
	pruneEvery = time.Minute
	pruneBatch = 5000
	// pruneLock keeps all relays but one from pruning at the same time; it lasts one transaction.
	pruneLock = 8_170_042_004
	// A page may take long, and waits for nobody.
	beginPage = readCommitted + `; SET LOCAL lock_timeout = 500; SET LOCAL statement_timeout = 60000`
)

// selectOld finds a page of old rows by their event id, which begins with the time: a row published
// before the limit was written before it, so the index on event_id leads to it and to few others.
const selectOld = `
SELECT id, event_id
FROM orders.outbox
WHERE event_id > $3
  AND event_id < (lpad(to_hex((extract(epoch FROM now() - $1::interval) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
  AND published_at < now() - $1::interval
ORDER BY event_id
LIMIT $2`

const deletePublished = `DELETE FROM orders.outbox WHERE id = ANY($1) AND published_at < now() - $2::interval`

// pruner deletes old rows.
type pruner struct {
	pool      *pgxpool.Pool
	retention time.Duration
	log       *slog.Logger
	metrics   *metrics

	after uuid.UUID // where the next page begins
	told  pace      // when rows that cannot be deleted were last mentioned
}

// prune deletes old rows now and every minute until ctx ends.
func (p *pruner) prune(ctx context.Context) {
	for ctx.Err() == nil {
		total, err := p.all(ctx)
		if total > 0 {
			p.log.Info(fmt.Sprintf("pruned %d events published more than %v ago", total, p.retention), "pruned", total)
		}
		if err != nil && ctx.Err() == nil {
			p.log.Debug("pruning: "+err.Error(), "err", err) // the relay itself says when the database is away
		}
		service.Wait(ctx, pruneEvery)
	}
}

// all deletes page after page until there is nothing more to delete, or another relay is at it. It breaks off
// after a page of which nothing could be deleted, and goes on behind it the next time.
func (p *pruner) all(ctx context.Context) (total int64, err error) {
	for {
		page, err := p.once(ctx)
		total += page.deleted
		if err != nil {
			return total, err
		}
		p.after = page.last
		if page.rows < pruneBatch {
			p.after = uuid.UUID{}
		}
		if page.rows < pruneBatch || page.deleted == 0 {
			return total, nil
		}
	}
}

// prunedPage is what became of a page.
type prunedPage struct {
	rows    int
	last    uuid.UUID
	deleted int64
}

// once deletes a page of rows together or, if the database refuses one of them, row by row.
func (p *pruner) once(ctx context.Context) (page prunedPage, err error) {
	page, err = p.delete(ctx, beginPage, func(tx pgx.Tx, ids []int64) (int64, error) {
		tag, err := tx.Exec(ctx, deletePublished, ids, p.retention)
		return tag.RowsAffected(), err
	})
	if refused(err) {
		page, err = p.delete(ctx, beginPage+checkAtOnce, func(tx pgx.Tx, ids []int64) (int64, error) { return p.eachOf(ctx, tx, ids) })
	}
	return page, err
}

// delete finds a page, and deletes it in one transaction.
func (p *pruner) delete(ctx context.Context, how string, do func(pgx.Tx, []int64) (int64, error)) (page prunedPage, err error) {
	err = pgx.BeginTxFunc(ctx, p.pool, pgx.TxOptions{BeginQuery: how}, func(tx pgx.Tx) error {
		var mine bool
		if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, int64(pruneLock)).Scan(&mine); err != nil || !mine {
			return err
		}
		var ids []int64
		var id int64
		rows, _ := tx.Query(ctx, selectOld, p.retention, pruneBatch, p.after)
		_, err := pgx.ForEachRow(rows, []any{&id, &page.last}, func() error { ids = append(ids, id); return nil })
		if err != nil || len(ids) == 0 {
			return err
		}
		page.rows = len(ids)
		page.deleted, err = do(tx, ids)
		return err
	})
	return page, err
}

// eachOf deletes those of the rows that nobody has locked and the database lets it delete.
func (p *pruner) eachOf(ctx context.Context, tx pgx.Tx, ids []int64) (int64, error) {
	rows, _ := tx.Query(ctx, `SELECT id FROM orders.outbox WHERE id = ANY($1) ORDER BY id FOR UPDATE SKIP LOCKED`, ids)
	free, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return 0, err
	}
	s := newBisection(tx)
	err = s.apply(ctx, free, func(ids []int64) error {
		tag, err := tx.Exec(ctx, deletePublished, ids, p.retention)
		return changed(tag, err, len(ids))
	})
	p.metrics.refused.WithLabelValues(stepDelete).Add(float64(len(s.refused)))
	if kept := s.refusedIDs(); len(kept) > 0 && p.told.every(toldEvery) {
		p.log.Warn(fmt.Sprintf("%d old rows: %s, the first is %d: %q", len(kept), cannot[stepDelete], kept[0], s.refused[kept[0]].Error()),
			"rows", len(kept), "step", stepDelete)
	}
	return int64(len(s.accepted)), err
}

// toldEvery is how often rows that cannot be deleted are mentioned.
const toldEvery = 10 * time.Minute
