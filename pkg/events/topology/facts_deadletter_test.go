package topology_test

// Which broker behaviour does the dead-letter queue stand on? What a parked message carries, and
// why its queue must have no limit of its own.

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
)

// The delivery count survives dead-lettering and goes on from there. With the default limit of 20
// a few looks into the DLQ would drop what it keeps, hence x-delivery-limit -1 (facts 1.3, 10.5).
func TestParkedMessageKeepsItsCount(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	p.queue("probe", 1)
	p.publish("probe", "m1")
	_, deliveries := p.consume("probe", "reader", 1)
	for range 2 {
		p.must("reject", p.next(deliveries).Reject(true))
	}

	_, parked := p.consume(topology.DeadLetterQueue, "parked", 1)
	d := p.next(parked)
	if !d.Redelivered {
		t.Error("the first delivery from the DLQ is not marked redelivered")
	}
	// x-acquired-count is left aside: it arrives as 2 and starts again at 1 with the first return.
	for want := int64(2); want <= 27; want++ {
		if delivered, _ := counts(d); delivered != want {
			t.Fatalf("x-delivery-count %d, want %d", delivered, want)
		}
		p.must("reject", d.Reject(true))
		d = p.next(parked)
	}
}

// A message that ran out of attempts says `delivery_limit`, a refused one says `rejected`; a
// refusal is a delivery too, and the routing key is the source queue's name (facts 1.5, 10.1).
func TestReasonTellsLimitFromRefusal(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	p.queue("probe", 0)
	_, deliveries := p.consume("probe", "reader", 1)
	_, parked := p.consume(topology.DeadLetterQueue, "parked", 1)

	for _, requeue := range []bool{true, false} {
		want := map[bool]string{true: "delivery_limit", false: "rejected"}[requeue]
		p.publish("probe", want)
		p.must("reject", p.next(deliveries).Reject(requeue))

		d := p.next(parked)
		if d.MessageId != want || reason(d) != want || d.RoutingKey != topology.Queue {
			t.Errorf("parked %s: reason %q, routing key %q; want %q, %q",
				d.MessageId, reason(d), d.RoutingKey, want, topology.Queue)
		}
		p.wantCounts(d, 1, 1)
		p.must("ack", d.Ack(false))
	}
}

// reason is the newest entry of x-death.
func reason(d amqp.Delivery) string {
	deaths, _ := d.Headers["x-death"].([]any)
	if len(deaths) == 0 {
		return ""
	}
	newest, _ := deaths[0].(amqp.Table)
	text, _ := newest["reason"].(string)
	return text
}
