package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/outboxlab/pkg/postgres"
)

// This file answers: why did a message fail? The broker counts failures and keeps no text, so the
// last one is kept in the table loyalty.failures, for `loyalty dlq list`. It is deleted by the
// transaction that handles the message (award.go).

const (
	// noteTimeout bounds the writing of a note: the message waits for it.
	noteTimeout = 2 * time.Second
	// maxReason is how much of an error's text is kept, in bytes.
	maxReason = 2000
)

// Sorted, so that two consumers which note the same messages do so in the same sequence (package inbox).
const upsertFailures = `
INSERT INTO loyalty.failures (consumer, message_id, last_error)
SELECT $1, message_id, last_error
FROM unnest($2::uuid[], $3::text[]) AS failure (message_id, last_error)
ORDER BY message_id
ON CONFLICT (consumer, message_id) DO UPDATE
SET attempts = failures.attempts + 1, last_error = excluded.last_error, last_seen = now()`

const deleteFailures = `
DELETE FROM loyalty.failures
WHERE consumer = $1 AND message_id = ANY($2)`

// noteFailures keeps the errors of the deliveries that have one, in a transaction of its own, before
// they are settled. A note that cannot be written changes nothing about what becomes of a message.
func (c *Consumer) noteFailures(ctx context.Context, batch []delivery) {
	var ids []uuid.UUID
	var reasons []string
	for _, d := range batch {
		if isServerError(d.err) {
			continue // not a failure, and perhaps there is nowhere to write to
		}
		// A message without a usable id cannot be found again in the table. Of two copies the first will do:
		// one statement cannot update one row twice.
		if d.err != nil && d.ID != uuid.Nil && !slices.Contains(ids, d.ID) {
			ids, reasons = append(ids, d.ID), append(reasons, storable(reason(d.err)))
		}
	}
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	if _, err := c.pool.Exec(ctx, upsertFailures, consumerName, postgres.UUIDs(ids), reasons); err != nil {
		c.log.Warn("failure not noted: "+reason(err), "err", err)
	}
}

// storable makes a text, which may quote a message, one that PostgreSQL takes: valid UTF-8 without zero bytes.
func storable(s string) string {
	s = s[:min(len(s), maxReason)]
	return strings.ReplaceAll(strings.ToValidUTF8(s, "?"), "\x00", "?")
}
