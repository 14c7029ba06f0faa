// How often was each message published and delivered? The broker itself tells: with tracing on, RabbitMQ copies every
// message a client publishes and every message it hands to a client onto the exchange amq.rabbitmq.trace (its "firehose").
// The tap is an exclusive queue there. It is exact and immediate, unlike management statistics, and it binds nothing
// to the exchange "orders": a queue bound there by "#" would make every key routable, and `mandatory` could return nothing.
//
// Dead-lettering happens inside the broker and is no publish of a client: it does not show here.
package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/scripts/lab"
)

// tap collects both from the moment it is opened.
type tap struct {
	lab    *lab.Lab
	cancel context.CancelFunc
	done   chan struct{}

	mu        sync.Mutex
	published []publication
	delivered []delivery
	markers   map[string]chan struct{}
	channel   *amqp.Channel
	queue     string
	lost      chan struct{} // closed when the broker goes away, and with it the queue
	gaps      int           // how often the broker went away, and with it what it said meanwhile
}

// openTap switches tracing on for the lab's vhost and listens. Channels opened before would not be traced: open the tap
// before any service connects.
func openTap(ctx context.Context, l *lab.Lab) (*tap, error) {
	t := &tap{lab: l, done: make(chan struct{}), markers: map[string]chan struct{}{}}
	conn, deliveries, err := t.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("listen to the broker's firehose: %w", err)
	}
	ctx, t.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go t.listen(ctx, conn, deliveries)
	return t, nil
}

// close ends the listening.
func (t *tap) close() {
	t.cancel()
	<-t.done
}

func (t *tap) connect(ctx context.Context) (*amqp.Connection, <-chan amqp.Delivery, error) {
	if err := setTracing(ctx, t.lab); err != nil {
		return nil, nil, err
	}
	conn, err := amqp.Dial(t.lab.AMQPURL)
	if err != nil {
		return nil, nil, err
	}
	deliveries, err := t.subscribe(conn)
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return conn, deliveries, nil
}

func (t *tap) subscribe(conn *amqp.Connection) (<-chan amqp.Delivery, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"publish.#", "deliver.#"} {
		if err := ch.QueueBind(q.Name, key, "amq.rabbitmq.trace", false, nil); err != nil {
			return nil, err
		}
	}
	deliveries, err := ch.Consume(q.Name, "", true, true, false, false, nil)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.channel, t.queue, t.lost = ch, q.Name, make(chan struct{})
	return deliveries, nil
}

// listen records until closed; when the broker is restarted (own-servers scenarios) it comes back and notes the gap.
func (t *tap) listen(ctx context.Context, conn *amqp.Connection, deliveries <-chan amqp.Delivery) {
	defer close(t.done)
	for {
		for open := true; open; {
			select {
			case d, ok := <-deliveries:
				if open = ok; ok {
					t.record(d, time.Now())
				}
			case <-ctx.Done():
				_ = conn.Close() // nobody needs the connection any more, however it ends
				return
			}
		}
		t.mu.Lock()
		t.gaps++
		close(t.lost)
		t.mu.Unlock()
		for {
			var err error
			if conn, deliveries, err = t.connect(ctx); err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(pollEvery):
			}
		}
	}
}
