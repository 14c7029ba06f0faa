package main

// How fast does a consumer empty its queue? The messages are there already. At best: received and acknowledged in groups
// by nothing but the client library. At worst: loyalty told to handle one message in each transaction.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
)

func loyaltyDrain(ctx context.Context, r *rig) error {
	var used []usage // of loyalty as it is by default, round by round
	var ways []way
	for _, prefetch := range []int{100, 1000} {
		ways = append(ways, way{fmt.Sprintf("raw consume, prefetch %d", prefetch), func() (rate float64, err error) {
			err = r.at(ctx, func(s *site) error {
				if _, err := s.publishRaw(ctx, r.messages, 1, 1000); err != nil {
					return err
				}
				seconds, err := timed(func() error { return s.consumeRaw(ctx, r.messages, prefetch) })
				rate = float64(r.messages) / seconds
				return err
			})
			return rate, err
		}})
	}
	alone := len(ways)
	ways = append(ways,
		way{"one loyalty", func() (float64, error) {
			rate, u, err := r.drainQueue(ctx, r.messages)
			used = append(used, u)
			return rate, err
		}},
		way{"one message in each transaction, prefetch 10", func() (float64, error) {
			rate, _, err := r.drainQueue(ctx, r.oneByOne, "LOYALTY_BATCH=1", "LOYALTY_PREFETCH=10")
			return rate, err
		}})
	rates, err := r.inTurns(ways)
	if err != nil {
		return err
	}
	raw := measure{Name: "raw consume and ack", Value: slices.Max(rates[:alone]), Unit: "messages/s"}
	loyalty := measure{Name: ways[alone].name, Value: rates[alone], Unit: "messages/s"}
	one := measure{Name: ways[alone+1].name, Value: rates[alone+1], Unit: "messages/s"}
	again := loyalty.to(one).atLeast(15)
	again.Name += ", compared with one at a time"
	memory, cpu := total(used)
	r.report(raw, loyalty.to(raw).atLeast(0.65), one, again,
		measure{Name: "resident memory, at most", Value: memory, Unit: "MB"},
		measure{Name: "CPU of loyalty for 1,000 messages", Value: cpu.Seconds() * 1000 * 1000 / float64(r.messages*len(used)), Unit: "ms"})
	return nil
}

// consumeRaw acknowledges twice in a window, so that the broker never waits for us.
func (s *site) consumeRaw(ctx context.Context, n, prefetch int) error {
	ch, err := s.broker.Channel()
	if err != nil {
		return err
	}
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.ConsumeWithContext(ctx, topology.Queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for received := 1; received <= n; received++ {
		var d amqp.Delivery
		var open bool
		select {
		case d, open = <-deliveries:
		case <-time.After(10 * time.Second):
		}
		if !open {
			return errors.New("no more deliveries")
		}
		if received%(prefetch/2) == 0 || received == n {
			if err := d.Ack(true); err != nil {
				return err
			}
		}
	}
	return ch.Close() // answered after the acknowledgements have been dealt with
}

// drainQueue lets loyalty award n orders, and returns messages a second, by the times of the inbox.
func (r *rig) drainQueue(ctx context.Context, n int, env ...string) (perSecond float64, used usage, err error) {
	err = r.at(ctx, func(s *site) error {
		if _, err := s.publishRaw(ctx, n, 1, 1000); err != nil {
			return err
		}
		p, err := s.start(ctx, "loyalty", env...)
		if err != nil {
			return err
		}
		if err := s.awaitAwards(ctx, n); err != nil {
			return err
		}
		if used, err = p.stop(ctx); err != nil {
			return err
		}
		err = s.db.QueryRow(ctx, `
SELECT count(*) / extract(epoch FROM max(processed_at) - min(processed_at))::float8
FROM loyalty.processed_messages`).Scan(&perSecond)
		return err
	})
	return perSecond, used, err
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
	return until(ctx, fmt.Sprintf("%d orders awarded", n), time.Minute, drainPause, func() (bool, error) {
		var awarded int
		err := s.db.QueryRow(ctx, `SELECT count(*) FROM loyalty.ledger`).Scan(&awarded)
		return awarded == n, err
	})
}
