package topology_test

// How do the contract tests talk to the broker? With a probe: one connection in a vhost of the
// test's own, queues like the real ones but with shorter waits, and receives that have a deadline.

import (
	"context"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
	"example.com/outboxlab/scripts/wait"
)

const (
	// retryMin replaces the real second: facts about multiples stay true, tests stay short.
	retryMin = 200 * time.Millisecond
	// earliness is how far before its nominal delay a message may be seen: the broker counts
	// whole milliseconds from its own clock, the test from when it wrote the reject.
	earliness = 20 * time.Millisecond
)

type probe struct {
	testing.TB
	lab  *lab.Lab
	conn *amqp.Connection
}

// newProbe opens a connection to a vhost in which the real topology is declared.
func newProbe(t testing.TB) *probe {
	t.Helper()
	l := lab.ForTest(t)
	conn, err := amqp.Dial(l.AMQPURL)
	if err != nil {
		t.Fatalf("dial broker: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	p := &probe{TB: t, lab: l, conn: conn}
	p.must("declare the topology", topology.Declare(p.channel()))
	return p
}

func (p *probe) must(what string, err error) {
	p.Helper()
	if err != nil {
		p.Fatalf("%s: %v", what, err)
	}
}

// channel opens one in confirm mode; it ends with the connection.
func (p *probe) channel() *amqp.Channel {
	p.Helper()
	ch, err := p.conn.Channel()
	p.must("open channel", err)
	p.must("confirm mode", ch.Confirm(false))
	return ch
}

// queue declares a private quorum queue whose dead messages go to the real dead-letter queue.
func (p *probe) queue(name string, limit int64) {
	p.Helper()
	_, err := p.channel().QueueDeclare(name, true, false, false, false, amqp.Table{
		"x-queue-type":              "quorum",
		"x-delivery-limit":          limit,
		"x-delayed-retry-type":      "failed",
		"x-delayed-retry-min":       retryMin.Milliseconds(),
		"x-delayed-retry-max":       int64(10_000),
		"x-dead-letter-exchange":    topology.DeadLetterExchange,
		"x-dead-letter-routing-key": topology.Queue,
		"x-dead-letter-strategy":    "at-least-once",
		"x-overflow":                "reject-publish",
	})
	p.must("declare "+name, err)
}

// publish sends persistent messages straight to a queue and waits for each confirm.
func (p *probe) publish(queue string, ids ...string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), wait.Limit)
	defer cancel()
	ch := p.channel()
	for _, id := range ids {
		confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false,
			amqp.Publishing{MessageId: id, DeliveryMode: amqp.Persistent, Body: []byte("{}")})
		p.must("publish "+id, err)
		if acked, err := confirm.WaitContext(ctx); err != nil || !acked {
			p.Fatalf("confirm of %s: acked=%v, %v", id, acked, err)
		}
	}
	p.must("close publishing channel", ch.Close())
}

// consume starts a consumer called tag with that prefetch on a channel of its own.
func (p *probe) consume(queue, tag string, prefetch int) (*amqp.Channel, <-chan amqp.Delivery) {
	p.Helper()
	ch := p.channel()
	p.must("prefetch", ch.Qos(prefetch, 0, false))
	deliveries, err := ch.Consume(queue, tag, false, false, false, false, nil)
	p.must("consume "+queue, err)
	return ch, deliveries
}

// next waits for one delivery.
func (p *probe) next(deliveries <-chan amqp.Delivery) amqp.Delivery {
	p.Helper()
	select {
	case d, open := <-deliveries:
		if !open {
			p.Fatal("the broker ended the consumer")
		}
		return d
	case <-time.After(wait.Limit):
		p.Fatalf("no delivery within %s", wait.Limit)
	}
	panic("unreachable")
}

// counts reads the broker's two counters; an absent header is -1, to tell it from zero.
func counts(d amqp.Delivery) (delivered, acquired int64) {
	read := func(name string) int64 {
		if n, ok := d.Headers[name].(int64); ok {
			return n
		}
		return -1
	}
	return read("x-delivery-count"), read("x-acquired-count")
}

// wantCounts fails unless the counters are exactly these (-1: header absent).
func (p *probe) wantCounts(d amqp.Delivery, delivered, acquired int64) {
	p.Helper()
	if gotD, gotA := counts(d); gotD != delivered || gotA != acquired {
		p.Fatalf("message %s: x-delivery-count %d, x-acquired-count %d; want %d, %d (-1 = absent)",
			d.MessageId, gotD, gotA, delivered, acquired)
	}
}
