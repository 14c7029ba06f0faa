package main

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/pkg/crash"
	"example.com/outboxlab/pkg/events"
	"example.com/outboxlab/pkg/outbox"
	"example.com/outboxlab/pkg/postgres"
)

// This file answers: when is an order accepted? When one transaction has written the order and
// the event that tells of it. From here the walk goes on to pkg/outbox.

// NewOrder is what a customer asks for.
type NewOrder struct {
	CustomerID  int64
	TotalKZT    int32 // whole tenge
	Traceparent string
}

// Order is an accepted order.
type Order struct {
	ID         int64
	CustomerID int64
	TotalKZT   int32
	Status     string
	CreatedAt  time.Time
}

const insertOrder = `
INSERT INTO orders.orders (customer_id, total_kzt)
VALUES ($1, $2)
RETURNING id, customer_id, total_kzt, status, created_at`

// Place writes the order and its event in one transaction, with nothing but SQL inside; it tries again
// after errors that leave no doubt that it did not happen. On an error neither exists, with one exception: if the
// connection broke during COMMIT (postgres.Unreachable), nobody knows whether both exist or neither.
func Place(ctx context.Context, pool *pgxpool.Pool, n NewOrder) (Order, error) {
	var order Order
	err := postgres.Tx(ctx, pool, func(tx pgx.Tx) error {
		var err error
		if order, err = write(ctx, tx, n); err != nil {
			return err
		}
		crash.At(crash.OrdersBeforeCommit, strconv.FormatInt(order.ID, 10))
		return nil
	})
	if err != nil {
		return Order{}, err
	}
	crash.At(crash.OrdersAfterCommit, strconv.FormatInt(order.ID, 10))
	return order, nil
}

// write writes the order and its event in tx.
func write(ctx context.Context, tx pgx.Tx, n NewOrder) (Order, error) {
	rows, _ := tx.Query(ctx, insertOrder, n.CustomerID, n.TotalKZT)
	order, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Order])
	if err != nil {
		return Order{}, err
	}
	return order, outbox.Add(ctx, tx, orderPlaced(order, n.Traceparent))
}

func orderPlaced(o Order, traceparent string) outbox.Event {
	return outbox.Event{
		AggregateType: "order",
		AggregateID:   strconv.FormatInt(o.ID, 10),
		Type:          events.OrderPlacedType,
		Version:       events.OrderPlacedVersion,
		Payload:       events.OrderPlaced{OrderID: o.ID, CustomerID: o.CustomerID, TotalKZT: int64(o.TotalKZT)},
		Traceparent:   traceparent,
	}
}

const selectOrder = `
SELECT id, customer_id, total_kzt, status, created_at
FROM orders.orders
WHERE id = $1`

// Find returns the order with the given id, or pgx.ErrNoRows.
func Find(ctx context.Context, pool *pgxpool.Pool, id int64) (order Order, err error) {
	err = postgres.Read(ctx, pool, func() error {
		rows, _ := pool.Query(ctx, selectOrder, id)
		order, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Order])
		return err
	})
	return order, err
}
