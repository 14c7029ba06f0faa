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
	"example.com/outboxlab/pkg/postgres"
)

// This file answers: how is an order awarded once, however often its event comes? One transaction
// writes the inbox row, which remembers the message, and the ledger row, which is the effect; for
// one message or for a batch, it is the same. The walk ends here, at the tables:
// migrations/schema/loyalty.

// consumerName is this consumer's name in the inbox.
const consumerName = "loyalty.points"

// Message is an event as it came over whatever transport, with the id by which it is remembered.
type Message struct {
	ID    uuid.UUID
	Order events.OrderPlaced
}

// orderID is how crash flags name the order.
func (m Message) orderID() string { return strconv.FormatInt(m.Order.OrderID, 10) }

// Award credits the orders' points, in one transaction for all messages. awarded[i] tells of
// messages[i]: false means that the message has been handled before, or the order has been awarded
// through another message (a duplicate, and no error). On an error nothing has been written, or the
// commit's outcome is unknown (postgres.Unreachable): in both cases all may be handled again.
func Award(ctx context.Context, pool *pgxpool.Pool, messages []Message) (awarded []bool, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		ids := make([]uuid.UUID, len(messages))
		for i, m := range messages {
			ids[i] = m.ID
		}
		first, err := inbox.Once(ctx, tx, consumerName, ids...)
		if err != nil {
			return err
		}
		var written []string
		for i, m := range messages {
			if first[i] {
				written = append(written, m.orderID())
			}
		}
		if awarded, err = credit(ctx, tx, messages, first, ids); err != nil {
			return err
		}
		crash.At(crash.LoyaltyBeforeCommit, written...)
		return nil
	})
	return awarded, err
}

// Of two messages of one order, the earlier in the batch is the one that counts. Sorted by order,
// for the reason given at package inbox: there must be one sequence in which rows are locked.
const insertAwards = `
INSERT INTO loyalty.ledger (customer_id, order_id, points)
SELECT customer_id, order_id, points
FROM unnest($1::bigint[], $2::bigint[], $3::integer[])
     WITH ORDINALITY AS award (customer_id, order_id, points, place)
ORDER BY order_id, place
ON CONFLICT (order_id) DO NOTHING
RETURNING order_id`

// credit writes the ledger rows of the messages that are handled for the first time, and forgets
// what went wrong with any of them before: one round trip.
func credit(ctx context.Context, tx pgx.Tx, messages []Message, first []bool, ids []uuid.UUID) (awarded []bool, err error) {
	var customers, orders, points []int64
	for i, m := range messages {
		if first[i] {
			customers = append(customers, m.Order.CustomerID)
			orders = append(orders, m.Order.OrderID)
			points = append(points, m.Order.Points())
		}
	}
	unclaimed := make(map[int64]bool, len(orders))
	statements := &pgx.Batch{}
	if len(orders) > 0 {
		statements.Queue(insertAwards, customers, orders, points).Query(func(rows pgx.Rows) error {
			inserted, err := pgx.CollectRows(rows, pgx.RowTo[int64])
			for _, order := range inserted {
				unclaimed[order] = true
			}
			return err
		})
	}
	statements.Queue(deleteFailures, consumerName, postgres.UUIDs(ids))
	if err := tx.SendBatch(ctx, statements).Close(); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	awarded = make([]bool, len(messages))
	for i, m := range messages {
		if first[i] {
			awarded[i] = unclaimed[m.Order.OrderID]
			delete(unclaimed, m.Order.OrderID)
		}
	}
	return awarded, nil
}
