package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"example.com/outboxlab/pkg/inbox"
	"example.com/outboxlab/pkg/postgres"
	"example.com/outboxlab/pkg/service"
)

// This file answers: when is a message forgotten? After INBOX_RETENTION, which must be longer than
// a message may lie in the dead-letter queue: redriven later than that, it would be new to the
// inbox, and only the ledger's own key would still stop a second award.

const (
	pruneInterval = time.Minute
	// pruneTimeout bounds one batch. One that does not end within it is tried again at the next interval.
	pruneTimeout = 30 * time.Second
)

// Nobody waits for a message that failed so long ago: it has been dropped, or purged with its queue.
const deleteOldFailures = `
DELETE FROM loyalty.failures
WHERE consumer = $1 AND last_seen < now() - $2::interval`

// keepForgetting prunes the inbox, and the notes of failures, until ctx ends.
func (c *Consumer) keepForgetting(ctx context.Context) {
	for ctx.Err() == nil {
		if err := c.forget(ctx); err != nil && ctx.Err() == nil {
			level := slog.LevelWarn
			if postgres.Unreachable(err) { // the session says so already
				level = slog.LevelDebug
			}
			c.log.Log(ctx, level, err.Error(), "err", err)
		}
		service.Wait(ctx, pruneInterval)
	}
}

// forget deletes what is older than the retention, batch by batch.
func (c *Consumer) forget(ctx context.Context) error {
	for {
		pruned, err := c.forgetBatch(ctx)
		if err != nil {
			return err
		}
		if pruned > 0 {
			c.log.Debug(fmt.Sprintf("forgot %d messages handled more than %v ago", pruned, c.config.InboxRetention), "pruned", pruned)
		}
		if pruned < inbox.PruneBatch {
			return nil
		}
	}
}

func (c *Consumer) forgetBatch(ctx context.Context) (pruned int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, pruneTimeout)
	defer cancel()
	if _, err := c.pool.Exec(ctx, deleteOldFailures, consumerName, c.config.InboxRetention); err != nil {
		return 0, fmt.Errorf("prune failures: %w", err)
	}
	return inbox.Prune(ctx, c.pool, consumerName, c.config.InboxRetention)
}
