// What does the broker hold right now? Questions with exact and immediate answers: passive declarations and basic.get.
// Nothing here uses management statistics, which lag by seconds; the management API only switches tracing on.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/scripts/lab"
)

// broker asks over one connection of its own, opened again whenever it broke.
type broker struct {
	url  string
	mu   sync.Mutex
	conn *amqp.Connection
}

// with runs ask on a fresh channel: a failed question closes its channel, and must not spoil the next one.
func (b *broker) with(ask func(*amqp.Channel) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn == nil || b.conn.IsClosed() {
		conn, err := amqp.Dial(b.url)
		if err != nil {
			return fmt.Errorf("ask the broker: %w", err)
		}
		b.conn = conn
	}
	ch, err := b.conn.Channel()
	if err != nil {
		return fmt.Errorf("ask the broker: %w", err)
	}
	defer func() { _ = ch.Close() }() // may be closed by the broker already
	return ask(ch)
}

func (b *broker) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn != nil {
		_ = b.conn.Close() // nothing depends on a polite end
	}
}

// queue returns how many messages are ready; a queue that nobody declared yet has none. A quorum queue answers a passive
// declaration from its leader's state, so the number is of this moment.
func (b *broker) queue(name string) (ready int, err error) {
	err = b.with(func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		if missing(err) {
			return nil
		}
		ready = q.Messages
		return err
	})
	return ready, err
}

// unbind takes the loyalty queue off the exchange, bind puts it back.
func (b *broker) unbind() error {
	return b.with(func(ch *amqp.Channel) error { return ch.QueueUnbind(loyaltyQueue, orderPlaced, ordersExchange, nil) })
}

func (b *broker) bind() error {
	return b.with(func(ch *amqp.Channel) error {
		return ch.QueueBind(loyaltyQueue, orderPlaced, ordersExchange, false, nil)
	})
}

func missing(err error) bool {
	var e *amqp.Error
	return errors.As(err, &e) && e.Code == amqp.NotFound
}

// deadLetter is one parked message.
type deadLetter struct {
	id       string // of the event
	orderID  int64  // 0 when the body names none
	reason   string // of the newest x-death entry: rejected, delivery_limit, …
	failures int64  // x-delivery-count
	body     []byte
}

// parked looks at everything in the dead-letter queue and puts it back. `nack` is a return, not a failure, and
// the queue's limit is -1: looking costs a message nothing.
func (b *broker) parked() ([]deadLetter, error) {
	var letters []deadLetter
	err := b.with(func(ch *amqp.Channel) error {
		var last uint64
		for {
			d, ok, err := ch.Get(deadLetters, false)
			if missing(err) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("look into %s: %w", deadLetters, err)
			}
			if !ok {
				break
			}
			last = d.DeliveryTag
			letters = append(letters, readDeadLetter(d))
		}
		if last == 0 {
			return nil
		}
		if err := ch.Nack(last, true, true); err != nil {
			return err
		}
		// A synchronous call behind the nack: once it is answered, the broker has the messages back.
		_, err := ch.QueueDeclarePassive(deadLetters, true, false, false, false, nil)
		return err
	})
	return letters, err
}

func readDeadLetter(d amqp.Delivery) deadLetter {
	letter := deadLetter{id: d.MessageId, orderID: orderOf(d.Body), body: d.Body}
	letter.failures, _ = d.Headers["x-delivery-count"].(int64)
	if deaths, _ := d.Headers["x-death"].([]any); len(deaths) > 0 {
		newest, _ := deaths[0].(amqp.Table)
		letter.reason, _ = newest["reason"].(string)
	}
	return letter
}

// orderOf reads the order id from an event's body; 0 when it has none that is a number.
func orderOf(body []byte) int64 {
	var event struct {
		OrderID int64 `json:"orderId"`
	}
	if json.Unmarshal(body, &event) != nil {
		return 0
	}
	return event.OrderID
}

// worthOf reads from an event's body how many points its order is worth; -1 when it does not say.
func worthOf(body []byte) int {
	event := struct {
		TotalKZT int `json:"totalKzt"`
	}{-100}
	if json.Unmarshal(body, &event) != nil {
		return -1
	}
	return event.TotalKZT / 100
}

// setTracing switches the firehose of the lab's vhost on.
func setTracing(ctx context.Context, l *lab.Lab) error {
	address := l.ManagementURL + "/api/vhosts/" + url.PathEscape(l.Vhost)
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, address, bytes.NewBufferString(`{"tracing": true}`))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("switch tracing on: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= 300 {
		return fmt.Errorf("switch tracing on: the management API answered %s", response.Status)
	}
	return nil
}
