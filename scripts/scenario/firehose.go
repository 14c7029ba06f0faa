// What does the tap know? It reads the copies that the firehose sends, and answers how often each event went by.
package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/scripts/wait"
)

// publication is one publish by a client.
type publication struct {
	id, connection string
	body           []byte
	routed         bool // false: no queue was bound for it, so nobody gets it
	at             time.Time
}

// delivery is one hand-over of a message to the loyalty queue's consumer.
type delivery struct {
	id          string
	redelivered bool
	failures    int64 // x-delivery-count: how often this copy had failed before
	at          time.Time
}

// record notes one copy. Its routing key says what happened: publish.EXCHANGE or deliver.QUEUE.
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
		queues, _ := d.Headers["routed_queues"].([]any)
		t.published = append(t.published, publication{id: id, connection: connection, body: d.Body, routed: len(queues) > 0, at: at})
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

// catchUp returns once everything the broker had traced before the call is recorded: it sends a marker to the
// tap's own queue and waits until it comes out behind the rest.
func (t *tap) catchUp(ctx context.Context) error {
	seen := make(chan struct{})
	t.mu.Lock()
	id := "marker-" + strconv.Itoa(len(t.published)) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	t.markers[id] = seen
	ch, queue, lost := t.channel, t.queue, t.lost
	t.mu.Unlock()
	if err := ch.PublishWithContext(ctx, "", queue, false, false, amqp.Publishing{MessageId: id}); err != nil {
		return fmt.Errorf("catch up with the firehose: %w", err)
	}
	select {
	case <-seen:
		return nil
	case <-lost:
		return errors.New("catch up with the firehose: the broker has gone away")
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(wait.Limit):
		return fmt.Errorf("the firehose did not catch up within %v", wait.Limit)
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
