// Package topology answers: which exchanges, queues and bindings does the system need? They are
// one table, declared by one function. Every process declares it when it starts; declaring again
// what exists changes nothing, and declaring it differently is refused by the broker (406).
package topology

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events"
)

// Names that other tools rely on.
const (
	Exchange           = "orders"     // topic: the relay publishes here, by event type
	DeadLetterExchange = "orders.dlx" // direct: messages given up arrive here, by queue name
	Queue              = "loyalty.order-placed"
	DeadLetterQueue    = Queue + ".dlq"
)

const (
	// DeliveryLimit is how many failed deliveries are forgiven. The broker compares count > limit
	// at the return, so a message is tried DeliveryLimit+1 = 6 times (facts 1.3).
	DeliveryLimit = 5
	// RetryMin is how long a failed message waits, in milliseconds, times its delivery count: 1, 2, 3, 4, 5 s.
	RetryMin = 1_000
	// RetryMax is the longest it waits, in milliseconds.
	RetryMax = 10_000
)

type exchange struct{ name, kind string }

type queue struct {
	name, exchange, key string // bound to exchange by key
	args                amqp.Table
}

var exchanges = []exchange{
	{Exchange, amqp.ExchangeTopic},
	{DeadLetterExchange, amqp.ExchangeDirect},
}

var queues = []queue{
	{name: Queue, exchange: Exchange, key: events.OrderPlacedType, args: amqp.Table{
		amqp.QueueTypeArg:  amqp.QueueTypeQuorum,
		"x-delivery-limit": int64(DeliveryLimit),
		// Only a failure, basic.reject(requeue), waits and counts. A message given back with
		// basic.nack, at shutdown or while the database is away, returns at once and free.
		"x-delayed-retry-type":      "failed",
		"x-delayed-retry-min":       int64(RetryMin),
		"x-delayed-retry-max":       int64(RetryMax),
		"x-dead-letter-exchange":    DeadLetterExchange,
		"x-dead-letter-routing-key": Queue,
		// at-least-once keeps a dead message in this queue until the DLQ has confirmed it; it
		// works only together with reject-publish (facts 1.5).
		"x-dead-letter-strategy": "at-least-once",
		"x-overflow":             "reject-publish",
	}},
	{name: DeadLetterQueue, exchange: DeadLetterExchange, key: Queue, args: amqp.Table{
		amqp.QueueTypeArg: amqp.QueueTypeQuorum,
		// A message keeps its delivery count when it dies. Under the default limit of 20 a few
		// looks at the DLQ would drop it for good (facts 1.3).
		"x-delivery-limit": int64(-1),
	}},
}

// Declare makes sure that everything exists, on a channel that is closed by the broker (406) if
// something exists differently.
func Declare(ch *amqp.Channel) error {
	for _, e := range exchanges {
		if err := ch.ExchangeDeclare(e.name, e.kind, true, false, false, false, nil); err != nil {
			return fmt.Errorf("declare exchange %s: %w", e.name, err)
		}
	}
	for _, q := range queues {
		if _, err := ch.QueueDeclare(q.name, true, false, false, false, q.args); err != nil {
			return fmt.Errorf("declare queue %s: %w", q.name, err)
		}
		if err := ch.QueueBind(q.name, q.key, q.exchange, false, nil); err != nil {
			return fmt.Errorf("bind queue %s: %w", q.name, err)
		}
	}
	return nil
}
