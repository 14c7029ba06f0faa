package main

// The events that are measured, all of the same kind: an order with a body of about 150 bytes, as an outbox row or as the
// message that a relay makes of it.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events"
	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/pkg/rabbitmq"
)

// filler is a member that consumers ignore.
const filler = "ninety bytes of something else that an order event of a real shop would carry along with it"

const insertEvents = `
INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload)
SELECT 'order', (n % $3::int)::text, 'order.placed', jsonb_build_object('orderId', n, 'customerId', 100 + n % 1000, 'totalKzt', 12000, 'note', $2::text)
FROM generate_series(1, $1::int) AS n`

// fill writes n pending events of that many aggregates in turn, and leaves the table as it is a while later: vacuumed and
// on disk.
func (s *site) fill(ctx context.Context, n, aggregates int) error {
	if _, err := s.db.Exec(ctx, insertEvents, n, filler, aggregates); err != nil {
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

// publisher is one channel with the confirms that it waits for.
type publisher struct {
	conn        *rabbitmq.Conn
	ch          *amqp.Channel
	window      int // most unconfirmed messages
	unconfirmed []*amqp.DeferredConfirmation
}

// publish sends the messages of the orders first, first+step and so on up to last, so many in one write, and waits for
// all confirms.
func (p *publisher) publish(ctx context.Context, first, last, step, together int) error {
	for next := first; next <= last; {
		for len(p.unconfirmed) > p.window-together {
			if err := p.awaitOldest(ctx); err != nil {
				return err
			}
		}
		err := p.conn.Together(func() error {
			for i := 0; i < together && next <= last; i++ {
				if err := p.send(ctx, orderPlaced(next)); err != nil {
					return err
				}
				next += step
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return p.flush(ctx)
}

func (p *publisher) send(ctx context.Context, m amqp.Publishing) error {
	const mandatory, immediate = true, false
	confirm, err := p.ch.PublishWithDeferredConfirmWithContext(ctx, topology.Exchange, m.Type, mandatory, immediate, m)
	p.unconfirmed = append(p.unconfirmed, confirm)
	return err
}

// flush waits for all confirms.
func (p *publisher) flush(ctx context.Context) error {
	for len(p.unconfirmed) > 0 {
		if err := p.awaitOldest(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *publisher) awaitOldest(ctx context.Context) error {
	oldest := p.unconfirmed[0]
	p.unconfirmed = p.unconfirmed[1:]
	acked, err := oldest.WaitContext(ctx)
	if err == nil && !acked {
		err = errors.New("message refused by the broker")
	}
	return err
}
