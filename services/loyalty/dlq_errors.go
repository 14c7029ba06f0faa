package main

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/outboxlab/pkg/postgres"
)

// This file answers: which error did the consumer note for a dead message? The broker knows only
// that it failed; the text is in the database (failures.go), which may be down just then: the
// dead-letter queue can be read all the same.

// errorsTimeout bounds the database's part of a listing.
const errorsTimeout = 3 * time.Second

const selectLastErrors = `
SELECT message_id, last_error
FROM loyalty.failures
WHERE consumer = $1 AND message_id = ANY($2)`

// addLastErrors puts the noted errors into the rows. On an error the rows stay as they are.
func addLastErrors(ctx context.Context, url postgres.URL, rows []row) error {
	var ids []uuid.UUID
	for _, r := range rows {
		if id, err := uuid.Parse(r.ID); err == nil {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	noted, err := lastErrors(ctx, url, ids)
	if err != nil {
		return err
	}
	for i := range rows {
		if text, ok := noted[rows[i].ID]; ok {
			rows[i].LastError = text
		}
	}
	return nil
}

func lastErrors(ctx context.Context, url postgres.URL, ids []uuid.UUID) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, errorsTimeout)
	defer cancel()
	pool, err := postgres.Open(url, "loyalty dlq", postgres.Options{})
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	noted := map[string]string{}
	var id uuid.UUID
	var text string
	rows, _ := pool.Query(ctx, selectLastErrors, consumerName, postgres.UUIDs(ids)) // its error comes out of ForEachRow
	_, err = pgx.ForEachRow(rows, []any{&id, &text}, func() error {
		noted[id.String()] = text
		return nil
	})
	return noted, err
}
