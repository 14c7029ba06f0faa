// Package inbox answers: has this message been handled before? By one INSERT into the inbox inside
// the transaction that has the effect. Of two copies of a message, however they race, exactly one
// inserts the row; the other waits for that transaction's outcome and finds the row there.
package inbox

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const insertMessage = `
INSERT INTO loyalty.processed_messages (consumer, message_id)
VALUES ($1, $2)
ON CONFLICT DO NOTHING`

// Once records in tx that consumer handles the message and tells whether it is the first to do so.
// The answer is the row count, not an error caught: an error would end the transaction. If it
// fails, the message must not be handled, since nothing would remember it (warmbly/warmbly#123).
func Once(ctx context.Context, tx pgx.Tx, consumer string, messageID uuid.UUID) (first bool, err error) {
	tag, err := tx.Exec(ctx, insertMessage, consumer, messageID)
	if err != nil {
		return false, fmt.Errorf("inbox: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}
