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
	"strconv"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/scripts/lab"
)

// publication is one publish by a client.
type publication struct {
	id, key, connection string
	body                []byte
	at                  time.Time
}

// delivery is one hand-over of a message to the loyalty queue's consumer.
type delivery struct {
	id          string
	redelivered bool
	failures    int64 // x-delivery-count: how often this copy had failed before
	at          time.Time
}

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
	gaps      int // how often the broker went away, and with it what it said meanwhile
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
	t.channel, t.queue = ch, q.Name
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

func (t *tap) record(d amqp.Delivery, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if seen, ok := t.markers[d.MessageId]; ok && d.Exchange == "" {
		close(seen)
		delete(t.markers, d.MessageId)
		return
	}
	properties, _ := d.Headers["properties"].(amqp.Table)
	id, _ := properties["message_id"].(string)
	if exchange, ok := strings.CutPrefix(d.RoutingKey, "publish."); ok {
		if exchange != ordersExchange {
			return
		}
		connection, _ := d.Headers["connection"].(string)
		t.published = append(t.published, publication{id: id, key: firstKey(d.Headers), connection: connection, body: d.Body, at: at})
		return
	}
	if d.RoutingKey != "deliver."+loyaltyQueue {
		return // for example the verdict's own looks into the dead-letter queue
	}
	headers, _ := properties["headers"].(amqp.Table)
	failures, _ := headers["x-delivery-count"].(int64)
	t.delivered = append(t.delivered, delivery{
		id: id, at: at, failures: failures,
		redelivered: fmt.Sprint(d.Headers["redelivered"]) == "1",
	})
}

func firstKey(headers amqp.Table) string {
	keys, _ := headers["routing_keys"].([]any)
	if len(keys) == 0 {
		return ""
	}
	key, _ := keys[0].(string)
	return key
}

// catchUp returns once everything the broker had traced before the call is recorded: it sends a marker to the
// tap's own queue and waits until it comes out behind the rest.
func (t *tap) catchUp(ctx context.Context) error {
	seen := make(chan struct{})
	t.mu.Lock()
	id := "marker-" + strconv.Itoa(len(t.published)) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	t.markers[id] = seen
	ch, queue := t.channel, t.queue
	t.mu.Unlock()
	if err := ch.PublishWithContext(ctx, "", queue, false, false, amqp.Publishing{MessageId: id}); err != nil {
		return fmt.Errorf("catch up with the firehose: %w", err)
	}
	select {
	case <-seen:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(10 * time.Second):
		return fmt.Errorf("the firehose did not catch up within 10s")
	}
}

// seen returns copies of what was recorded, after catching up.
func (t *tap) seen(ctx context.Context) ([]publication, []delivery, error) {
	if err := t.catchUp(ctx); err != nil {
		return nil, nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]publication(nil), t.published...), append([]delivery(nil), t.delivered...), nil
}

// missed says how often the broker went away while the tap listened.
func (t *tap) missed() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.gaps
}

// quietFor says how long ago the newest publish or delivery was.
func (t *tap) quietFor() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	var newest time.Time
	if n := len(t.published); n > 0 {
		newest = t.published[n-1].at
	}
	if n := len(t.delivered); n > 0 && t.delivered[n-1].at.After(newest) {
		newest = t.delivered[n-1].at
	}
	return time.Since(newest)
}
