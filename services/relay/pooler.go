package main

import (
	"context"
	"errors"
	"time"

	"example.com/outboxlab/pkg/postgres"
	"example.com/outboxlab/pkg/service"
)

// needSession returns an error if the database is reached through a pooler that gives server processes to others between
// transactions. There the time limit that frees the rows of a frozen relay would be somebody else's, and no
// wake-up would come. While the database does not answer it asks again; the sessions tell of that.
func needSession(ctx context.Context, u postgres.URL) error {
	for ctx.Err() == nil {
		err := postgres.NeedSession(ctx, u)
		if err == nil || errors.Is(err, postgres.ErrTransactionPooling) {
			return err
		}
		service.Wait(ctx, time.Second)
	}
	return nil
}
