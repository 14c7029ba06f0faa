// Package inbox answers: have these messages been handled before? By one INSERT into the inbox
// inside the transaction that has the effect. Of two copies of a message, however they race,
// exactly one inserts the row; the other waits for that transaction's outcome and finds the row there.
package inbox

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/outboxlab/pkg/postgres"
)

// The rows are inserted in the order of their ids, whatever order the messages came in. Two
// transactions that both insert a and b then wait for each other at a, one after the other; in
// opposite orders each would hold what the other waits for, a deadlock.
const insertMessages = `
INSERT INTO loyalty.processed_messages (consumer, message_id)
SELECT $1, id FROM unnest($2::uuid[]) AS id ORDER BY id
ON CONFLICT DO NOTHING
RETURNING message_id`

// Once records in tx that consumer handles the messages, in one round trip, and tells for each
// whether this is the first time: first[i] belongs to messageIDs[i]. Of an id that is there twice,
// only the first can be true. The answer is the rows returned, not an error caught: an error would
// end the transaction. If it fails, no message must be handled, since nothing would remember it
// (warmbly/warmbly#123).
func Once(ctx context.Context, tx pgx.Tx, consumer string, messageIDs ...uuid.UUID) (first []bool, err error) {
	rows, _ := tx.Query(ctx, insertMessages, consumer, postgres.UUIDs(messageIDs))
	inserted, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	unclaimed := make(map[uuid.UUID]bool, len(inserted))
	for _, id := range inserted {
		unclaimed[id] = true
	}
	first = make([]bool, len(messageIDs))
	for i, id := range messageIDs {
		first[i] = unclaimed[id]
		delete(unclaimed, id)
	}
	return first, nil
}

const deleteMessages = `
DELETE FROM loyalty.processed_messages
WHERE consumer = $1 AND message_id = ANY($2)`

// Undo takes back in tx what Once has recorded there, for messages that turned out not to be handled.
func Undo(ctx context.Context, tx pgx.Tx, consumer string, messageIDs ...uuid.UUID) error {
	if len(messageIDs) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, deleteMessages, consumer, postgres.UUIDs(messageIDs)); err != nil {
		return fmt.Errorf("inbox: %w", err)
	}
	return nil
}
