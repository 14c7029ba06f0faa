package main

// Which events are measured? All the same ones: an order each, with a body of about 150 bytes; as outbox rows, or as
// the messages that a relay makes of them.

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events"
	"example.com/outboxlab/pkg/events/topology"
)

// filler is a member that consumers ignore.
const filler = "ninety bytes of something else that an order event of a real shop would carry along with it"

const insertEvents = `
INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload)
SELECT 'order', n::text, 'order.placed', jsonb_build_object('orderId', n, 'customerId', 100 + n % 1000, 'totalKzt', 12000, 'note', $2::text)
FROM generate_series(1, $1::int) AS n`

// fill writes n pending events of n orders, and leaves the table as it is a while later: vacuumed and on disk.
func (s *site) fill(ctx context.Context, n int) error {
	if _, err := s.db.Exec(ctx, insertEvents, n, filler); err != nil {
		return err
	}
	for _, statement := range []string{`VACUUM (ANALYZE) orders.outbox`, `CHECKPOINT`} {
		if _, err := s.db.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// orderPlaced is the message of order n, header by header as the contract has it.
func orderPlaced(n int) amqp.Publishing {
	now := time.Now()
	return amqp.Publishing{
		MessageId: uuid.Must(uuid.NewV7()).String(), Type: events.OrderPlacedType, ContentType: "application/json",
		DeliveryMode: amqp.Persistent, Timestamp: now,
		Headers: amqp.Table{
			"x-event-version": int64(events.OrderPlacedVersion), "x-aggregate-type": "order", "x-aggregate-id": fmt.Sprint(n),
			"x-tenant-id": "default", "x-event-time": now.UTC().Format("2006-01-02T15:04:05.000000Z07:00"),
		},
		Body: fmt.Appendf(nil, `{"note": %q, "orderId": %d, "totalKzt": 12000, "customerId": %d}`, filler, n, 100+n%1000),
	}
}

// publisher is one channel that keeps up to window messages unconfirmed.
type publisher struct {
	ch       *amqp.Channel
	window   int
	underWay []*amqp.DeferredConfirmation
}

func (s *site) newPublisher(window int) (*publisher, error) {
	ch, err := s.broker.Channel()
	if err != nil {
		return nil, err
	}
	return &publisher{ch: ch, window: window}, ch.Confirm(false)
}

// send publishes, and waits for the oldest confirm if the window is full.
func (p *publisher) send(ctx context.Context, m amqp.Publishing) error {
	if len(p.underWay) == p.window {
		if err := p.awaitOldest(ctx); err != nil {
			return err
		}
	}
	const mandatory, immediate = true, false
	confirm, err := p.ch.PublishWithDeferredConfirmWithContext(ctx, topology.Exchange, m.Type, mandatory, immediate, m)
	p.underWay = append(p.underWay, confirm)
	return err
}

// flush waits for all confirms.
func (p *publisher) flush(ctx context.Context) error {
	for len(p.underWay) > 0 {
		if err := p.awaitOldest(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *publisher) awaitOldest(ctx context.Context) error {
	oldest := p.underWay[0]
	p.underWay = p.underWay[1:]
	acked, err := oldest.WaitContext(ctx)
	if err == nil && !acked {
		err = fmt.Errorf("message refused by the broker")
	}
	return err
}
