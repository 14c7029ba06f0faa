package lab

// How does a test look at what is in the broker?

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/wait"
)

// Channel opens a channel in the lab's vhost, with the topology declared and in confirm mode. It is closed when the test
// ends.
func (l *Lab) Channel(t testing.TB) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(l.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := topology.Declare(ch); err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	return ch
}

// Publish sends a message to the exchange orders and waits until the broker has it.
func Publish(t testing.TB, ch *amqp.Channel, key string, m amqp.Publishing) {
	t.Helper()
	confirm, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), topology.Exchange, key, true, false, m)
	if err != nil {
		t.Fatal(err)
	}
	if acked, err := confirm.WaitContext(t.Context()); err != nil || !acked {
		t.Fatalf("not confirmed: %v, %v", acked, err)
	}
}

// Ready tells how many messages of the queue are neither in hand nor waiting for a retry. On a quorum queue the answer
// is exact and of this moment.
func Ready(t testing.TB, ch *amqp.Channel, queue string) int {
	t.Helper()
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q.Messages
}

// Take takes every ready message out of the queue.
func Take(t testing.TB, ch *amqp.Channel, queue string) []amqp.Delivery {
	t.Helper()
	var taken []amqp.Delivery
	for {
		d, ok, err := ch.Get(queue, true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return taken
		}
		taken = append(taken, d)
	}
}

// AwaitReady waits until the queue has n ready messages.
func AwaitReady(t testing.TB, ch *amqp.Channel, queue string, n int) {
	t.Helper()
	Poll(t, wait.Limit, "ready messages in "+queue, func() (bool, error) { return Ready(t, ch, queue) == n, nil })
}
