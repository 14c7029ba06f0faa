package main

// The usual consumer is the baseline: up to ten unacknowledged messages, each handled in a goroutine and a transaction of
// its own, and acknowledged by itself. It writes the same two rows as loyalty.

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"
)

const (
	oneByOneName   = "a transaction for each message, 10 at the same time"
	oneByOneAtOnce = 10
)

// consumeOneByOne handles n messages.
func (s *site) consumeOneByOne(ctx context.Context, n int) ([]reading, error) {
	pool, err := pgxpool.New(ctx, s.LoyaltyURL+fmt.Sprint("&pool_max_conns=", oneByOneAtOnce))
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	ch, deliveries, err := s.consume(ctx, oneByOneAtOnce)
	if err != nil {
		return nil, err
	}
	var taken atomic.Int64
	group, groupCtx := errgroup.WithContext(ctx)
	for range oneByOneAtOnce {
		group.Go(func() error {
			for taken.Add(1) <= int64(n) {
				d, err := receive(groupCtx, deliveries)
				if err != nil {
					return err
				}
				if err := awardOne(groupCtx, pool, d); err != nil {
					return err
				}
				if err := d.Ack(false); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := ch.Close(); err != nil {
		return nil, err
	}
	if err := s.awaitAwards(ctx, n); err != nil { // or it did less than loyalty
		return nil, err
	}
	perSecond, err := s.handledPerSecond(ctx)
	return rate(perSecond, "messages/s"), err
}

const insertMessage = `
INSERT INTO loyalty.processed_messages (consumer, message_id)
VALUES ('loyalty.points', $1)
ON CONFLICT DO NOTHING`

const insertAward = `
INSERT INTO loyalty.ledger (customer_id, order_id, points)
VALUES ($1, $2, $3)
ON CONFLICT (order_id) DO NOTHING`

func awardOne(ctx context.Context, pool *pgxpool.Pool, d amqp.Delivery) error {
	var order struct{ OrderID, CustomerID, TotalKZT int64 }
	if err := json.Unmarshal(d.Body, &order); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		inserted, err := tx.Exec(ctx, insertMessage, d.MessageId)
		if err != nil || inserted.RowsAffected() == 0 {
			return err
		}
		_, err = tx.Exec(ctx, insertAward, order.CustomerID, order.OrderID, order.TotalKZT/100)
		return err
	})
}
