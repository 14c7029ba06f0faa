// What if events are published by other hands than the relay's? The verb publish: every event of the outbox, as often as the
// story wants, straight to the exchange.
package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"
)

func compilePublish(args []string) (action, error) {
	if len(args) != 4 || args[0] != "every" || args[1] != "event" || args[3] != "times" {
		return nil, usage("publish")
	}
	times, err := strconv.Atoi(args[2])
	if err != nil || times < 1 {
		return nil, usage("publish")
	}
	return func(ctx context.Context, s *stage) error {
		rows, _ := s.db.Query(ctx, `SELECT event_id::text, event_type, payload::text FROM orders.outbox ORDER BY id`)
		events, err := pgx.CollectRows(rows, pgx.RowToStructByPos[event])
		if err != nil {
			return fmt.Errorf("read the outbox: %w", err)
		}
		if err := s.broker.publish(ctx, events, times); err != nil {
			return err
		}
		s.out.note("%d messages confirmed", len(events)*times)
		return nil
	}, nil
}

// event is what it takes to publish an outbox row by hand.
type event struct {
	ID, Type string
	Payload  []byte
}

// publish sends the copies of each event one right behind the other, so that they meet in one batch, or in two consumers at
// the same moment. It returns when the broker has confirmed all of them.
func (b *broker) publish(ctx context.Context, events []event, times int) error {
	return b.with(func(ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		var confirms []*amqp.DeferredConfirmation
		for _, e := range events {
			m := amqp.Publishing{MessageId: e.ID, Type: e.Type, ContentType: "application/json", DeliveryMode: amqp.Persistent, Body: e.Payload}
			for range times {
				confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, ordersExchange, e.Type, false, false, m)
				if err != nil {
					return err
				}
				confirms = append(confirms, confirm)
			}
		}
		for _, confirm := range confirms {
			if acked, err := confirm.WaitContext(ctx); err != nil || !acked {
				return errors.Join(errors.New("a message published by hand was not confirmed"), err)
			}
		}
		return nil
	})
}
