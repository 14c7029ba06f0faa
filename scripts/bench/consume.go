package main

// A consumer empties a queue that is full already. The ceiling is the client library alone, receiving and acknowledging
// in groups. The baseline is the usual consumer, which handles each message in a transaction of its own (onebyone.go).

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
)

func loyaltyDrain(ctx context.Context, r *rig) error {
	const own = "one loyalty"
	full := func(n int, do func(s *site) ([]reading, error)) func() ([]reading, error) {
		return r.inLab(ctx, func(s *site) ([]reading, error) {
			if _, err := s.publishRaw(ctx, n, fillQueue); err != nil {
				return nil, err
			}
			return do(s)
		})
	}
	var contestants []contestant
	for _, prefetch := range []int{100, 500, 1000, 2000} {
		contestants = append(contestants, contestant{name: fmt.Sprintf("raw consume, prefetch %d", prefetch), ceiling: true,
			run: full(r.messages, func(s *site) ([]reading, error) {
				return timed(r.messages, "messages/s", func() error { return s.consumeRaw(ctx, r.messages, prefetch) })
			})})
	}
	contestants = append(contestants,
		contestant{name: own, atLeast: 0.70, run: full(r.messages, func(s *site) ([]reading, error) { return s.drainQueue(ctx, r.messages) })},
		contestant{name: oneByOneName, run: full(r.oneByOne, func(s *site) ([]reading, error) { return s.consumeOneByOne(ctx, r.oneByOne) })})
	measures, err := r.compare(contestants...)
	if err != nil {
		return err
	}
	again := find(measures, own).to(find(measures, oneByOneName))
	again.Target, again.Met = "", nil
	r.report(append(measures, again)...)
	return nil
}

// consumeRaw acknowledges twice in a window, so that the broker never waits for us.
func (s *site) consumeRaw(ctx context.Context, n, prefetch int) error {
	ch, deliveries, err := s.consume(ctx, prefetch)
	if err != nil {
		return err
	}
	for received := 1; received <= n; received++ {
		d, err := receive(ctx, deliveries)
		if err != nil {
			return err
		}
		if received%(prefetch/2) == 0 || received == n {
			if err := d.Ack(true); err != nil {
				return err
			}
		}
	}
	return ch.Close() // answered after the acknowledgements have been dealt with
}

func (s *site) consume(ctx context.Context, prefetch int) (*amqp.Channel, <-chan amqp.Delivery, error) {
	ch, err := s.broker.Channel()
	if err != nil {
		return nil, nil, err
	}
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return nil, nil, err
	}
	deliveries, err := ch.ConsumeWithContext(ctx, topology.Queue, "", false, false, false, false, nil)
	return ch, deliveries, err
}

// receive waits for a message that must be there.
func receive(ctx context.Context, deliveries <-chan amqp.Delivery) (amqp.Delivery, error) {
	select {
	case d, open := <-deliveries:
		if !open {
			return d, errors.New("the broker ended the consumer")
		}
		return d, nil
	case <-time.After(receiveWithin):
		return amqp.Delivery{}, fmt.Errorf("no message for %v", receiveWithin)
	case <-ctx.Done():
		return amqp.Delivery{}, context.Cause(ctx)
	}
}

const receiveWithin = time.Minute

// drainQueue lets loyalty award n orders. It returns the rate, memory and CPU time.
func (s *site) drainQueue(ctx context.Context, n int) ([]reading, error) {
	p, err := s.start(ctx, "loyalty")
	if err != nil {
		return nil, err
	}
	if err := s.awaitAwards(ctx, n); err != nil {
		return nil, err
	}
	used, err := p.stop(ctx)
	if err != nil {
		return nil, err
	}
	perSecond, err := s.handledPerSecond(ctx)
	return append(rate(perSecond, "messages/s"), used.readings(n, "messages")...), err
}

// handledPerSecond is taken from the inbox, whose times are those at which transactions began. Between the first and the
// last beginning every message was handled but those of the last transaction.
func (s *site) handledPerSecond(ctx context.Context) (perSecond float64, err error) {
	err = s.db.QueryRow(ctx, `
SELECT count(*) FILTER (WHERE processed_at < last) / extract(epoch FROM max(last) - min(processed_at))::float8
FROM loyalty.processed_messages, (SELECT max(processed_at) AS last FROM loyalty.processed_messages) AS ends`).Scan(&perSecond)
	return perSecond, err
}

// awaitAwards looks at the queue while there is something in it, which costs the database nothing.
func (s *site) awaitAwards(ctx context.Context, n int) error {
	err := until(ctx, "queue empty", drainWithin, drainPause, func() (bool, error) {
		queue, err := s.ch.QueueDeclarePassive(topology.Queue, true, false, false, false, nil)
		return queue.Messages == 0, err
	})
	if err != nil {
		return err
	}
	return until(ctx, fmt.Sprintf("%d orders awarded", n), drainWithin, drainPause, func() (bool, error) {
		var awarded int
		err := s.db.QueryRow(ctx, `SELECT count(*) FROM loyalty.ledger`).Scan(&awarded)
		return awarded == n, err
	})
}
