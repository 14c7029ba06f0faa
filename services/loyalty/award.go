package main

import (
	"context"
	"errors"
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

// Result is what Award found out about a message. The zero value is a duplicate: the message has been
// handled before, or its order has been awarded through another message that says the same.
type Result struct {
	Awarded bool
	// Conflict wraps errConflict: the order has been awarded, but to another customer or with other points.
	Conflict error
}

// errConflict is the error of a message that is no copy: its order id has been used before, for another
// order. Waiting does not change that.
var errConflict = errors.New("conflict")

// Award credits the orders' points, in one transaction for all messages. results[i] tells of
// messages[i]. A deadlock or the like is tried again at once (postgres.Tx). On an error nothing has been
// written, or the commit's outcome is unknown (postgres.Unreachable): in both cases all may be handled again.
func Award(ctx context.Context, pool *pgxpool.Pool, messages []Message) (results []Result, err error) {
	err = postgres.Tx(ctx, pool, func(tx pgx.Tx) error {
		first, rs, err := award(ctx, tx, messages)
		if err != nil {
			return err
		}
		var written []string
		for i, m := range messages {
			if first[i] {
				written = append(written, m.orderID())
			}
		}
		crash.At(crash.LoyaltyBeforeCommit, written...)
		results = rs
		return nil
	})
	return results, err
}

// award does in tx all that Award does. first[i] tells whether messages[i] was new to the inbox.
func award(ctx context.Context, tx pgx.Tx, messages []Message) (first []bool, results []Result, err error) {
	ids := make([]uuid.UUID, len(messages))
	for i, m := range messages {
		ids[i] = m.ID
	}
	if first, err = inbox.Once(ctx, tx, consumerName, ids...); err != nil {
		return nil, nil, err
	}
	if results, err = credit(ctx, tx, messages, first, ids); err != nil {
		return nil, nil, err
	}
	return first, results, findConflicts(ctx, tx, messages, first, results)
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
func credit(ctx context.Context, tx pgx.Tx, messages []Message, first []bool, ids []uuid.UUID) ([]Result, error) {
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
	results := make([]Result, len(messages))
	for i, m := range messages {
		if first[i] {
			results[i].Awarded = unclaimed[m.Order.OrderID]
			delete(unclaimed, m.Order.OrderID)
		}
	}
	return results, nil
}

const selectAwards = `
SELECT order_id, customer_id, points
FROM loyalty.ledger
WHERE order_id = ANY($1)`

// findConflicts compares the messages that awarded nothing with what their orders were awarded. One that
// says something else is no copy: its order would get no points, and nobody would know. It is not handled, so
// the inbox must not know it: after a repair it can be redriven.
func findConflicts(ctx context.Context, tx pgx.Tx, messages []Message, first []bool, results []Result) error {
	var orders []int64
	for i, r := range results {
		if !r.Awarded {
			orders = append(orders, messages[i].Order.OrderID)
		}
	}
	if len(orders) == 0 {
		return nil
	}
	type entry struct{ customer, points int64 }
	ledger := map[int64]entry{}
	var order int64
	var e entry
	rows, _ := tx.Query(ctx, selectAwards, orders) // its error comes out of ForEachRow
	_, err := pgx.ForEachRow(rows, []any{&order, &e.customer, &e.points}, func() error { ledger[order] = e; return nil })
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	var unhandled []uuid.UUID
	for i, m := range messages {
		before, found := ledger[m.Order.OrderID]
		if results[i].Awarded || !found || before == (entry{m.Order.CustomerID, m.Order.Points()}) {
			continue
		}
		results[i].Conflict = fmt.Errorf("%w: order %d has been awarded to customer %d with %d points, and this message says customer %d and %d points",
			errConflict, m.Order.OrderID, before.customer, before.points, m.Order.CustomerID, m.Order.Points())
		if first[i] {
			unhandled = append(unhandled, m.ID)
		}
	}
	return inbox.Undo(ctx, tx, consumerName, unhandled...)
}
