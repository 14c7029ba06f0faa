package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/pkg/crash"
	"example.com/outboxlab/pkg/events"
	"example.com/outboxlab/pkg/inbox"
)

// This file answers: how is an order awarded once, however often its event comes? One transaction
// writes the inbox row, which remembers the message, and the ledger row, which is the effect. The
// walk ends here, at the tables: migrations/schema/loyalty.

// consumerName is this consumer's name in the inbox.
const consumerName = "loyalty.points"

const insertAward = `
INSERT INTO loyalty.ledger (customer_id, order_id, points)
VALUES ($1, $2, $3)
ON CONFLICT (order_id) DO NOTHING`

// Award credits the order's points, unless the message has been handled before or the order has
// been awarded through another message (awarded = false: a duplicate, and no error). On an error
// nothing has been written, or the commit's outcome is unknown (postgres.Unreachable): in both
// cases the message may be handled again.
func Award(ctx context.Context, pool *pgxpool.Pool, messageID uuid.UUID, order events.OrderPlaced) (awarded bool, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		first, err := inbox.Once(ctx, tx, consumerName, messageID)
		if err != nil || !first {
			return err
		}
		tag, err := tx.Exec(ctx, insertAward, order.CustomerID, order.OrderID, order.Points())
		if err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
		awarded = tag.RowsAffected() == 1
		crash.At(crash.LoyaltyBeforeCommit, strconv.FormatInt(order.OrderID, 10))
		return nil
	})
	return awarded && err == nil, err
}
