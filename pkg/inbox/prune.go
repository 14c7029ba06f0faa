package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// This file answers: how long does the inbox remember?

// PruneBatch is the most rows that one transaction deletes: few enough to be over in milliseconds.
const PruneBatch = 5_000

// pruneLock is held by the transaction that prunes, so that of several consumers one does, and the
// others need not wait for it. The number only has to differ from other advisory locks of the database.
const pruneLock = 8_170_042_020

const deleteOldMessages = `
DELETE FROM loyalty.processed_messages
WHERE consumer = $1 AND message_id IN (
    SELECT message_id
    FROM loyalty.processed_messages
    WHERE consumer = $1 AND processed_at < now() - $2::interval
    ORDER BY processed_at
    LIMIT $3)`

// Prune forgets messages that consumer has handled longer ago than retention, by the database's
// clock: the oldest PruneBatch of them at most. It tells how many; 0 also when another session is
// pruning just now. A copy of a forgotten message is handled again when it comes.
func Prune(ctx context.Context, pool *pgxpool.Pool, consumer string, retention time.Duration) (pruned int64, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var mine bool
		if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, int64(pruneLock)).Scan(&mine); err != nil || !mine {
			return err
		}
		tag, err := tx.Exec(ctx, deleteOldMessages, consumer, retention, PruneBatch)
		pruned = tag.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("prune inbox: %w", err)
	}
	return pruned, nil
}
