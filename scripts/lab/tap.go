package lab

// How does a test see what was published, in which order? With a tap: a queue bound to the exchange orders by everything.
// It makes every key routable, so it has no place in a test of unroutable messages.

import (
	"slices"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
)

// Tap collects what is published.
type Tap struct {
	mu       sync.Mutex
	messages []amqp.Delivery
}

// NewTap starts to collect. It must not share ch with anybody.
func NewTap(t testing.TB, ch *amqp.Channel) *Tap {
	t.Helper()
	queue, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind(queue.Name, "#", topology.Exchange, false, nil); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(queue.Name, "", true, true, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	tap := &Tap{}
	go func() {
		for d := range deliveries {
			tap.mu.Lock()
			tap.messages = append(tap.messages, d)
			tap.mu.Unlock()
		}
	}()
	return tap
}

// Messages are those collected so far, in the order of their arrival.
func (tap *Tap) Messages() []amqp.Delivery {
	tap.mu.Lock()
	defer tap.mu.Unlock()
	return slices.Clip(tap.messages)
}
