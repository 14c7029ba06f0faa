package postgres

import (
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// UUIDs is ids as a parameter of type uuid[]. pgx takes []uuid.UUID too, but finds out for each element anew, by
// way of an error, that it cannot be sent as the text that it offers: for a batch, that costs more than the rest of the call.
func UUIDs(ids []uuid.UUID) []pgtype.UUID {
	known := make([]pgtype.UUID, len(ids))
	for i, id := range ids {
		known[i] = pgtype.UUID{Bytes: id, Valid: true}
	}
	return known
}
