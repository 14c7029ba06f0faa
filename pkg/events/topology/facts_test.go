package topology_test

// Which broker behaviour does the consumer's decision switch stand on? Each test pins one fact
// about failed, returned and counted deliveries on the live broker, so that an upgrade that
// changes it turns red here and not in production. Dead-lettering and publishing have files of
// their own beside this one.

import (
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/wait"
)

// A failure must be rejected, never nacked: only reject is counted toward the limit, so that a
// message nacked for its failures would loop for ever (facts 1.1, 10.1, 10.2).
func TestRejectCountsAndNackDoesNot(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	p.queue("probe", 5)
	p.publish("probe", "m1")
	_, deliveries := p.consume("probe", "reader", 1)

	first := p.next(deliveries)
	p.wantCounts(first, -1, -1)
	p.must("nack", first.Nack(false, true))

	nacked := p.next(deliveries)
	p.wantCounts(nacked, -1, 1)
	p.must("reject", nacked.Reject(true))

	rejected := p.next(deliveries)
	p.wantCounts(rejected, 1, 2)
	p.must("nack", rejected.Nack(false, true))

	p.wantCounts(p.next(deliveries), 1, 3)
}

// Limit 5 means six attempts: the sixth failure, not the fifth, parks the message (facts 1.3, 10.1).
func TestLimitFiveMeansSixDeliveries(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	p.queue("probe", 5)
	p.publish("probe", "m1")
	_, deliveries := p.consume("probe", "reader", 1)
	_, parked := p.consume(topology.DeadLetterQueue, "parked", 1)

	var attempts int64
	for {
		select {
		case d := <-deliveries:
			attempts++
			failures, _ := counts(d)
			if want := attempts - 1; max(failures, 0) != want {
				t.Fatalf("attempt %d carries x-delivery-count %d, want %d", attempts, failures, want)
			}
			p.must("reject", d.Reject(true))
		case d := <-parked:
			if attempts != 6 {
				t.Fatalf("parked after %d attempts, want 6", attempts)
			}
			p.wantCounts(d, 6, 6)
			return
		case <-time.After(wait.Limit):
			t.Fatalf("neither a delivery nor a parked message after %d attempts", attempts)
		}
	}
}

// The wait grows by retry-min with every failure: 1, 2, 3, 4, 5 times; linear, no jitter
// (facts 1.4, 10.1). Only lower bounds are judged: a busy machine may always be late.
func TestDelaysGrow(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	p.queue("probe", 5)
	p.publish("probe", "m1")
	_, deliveries := p.consume("probe", "reader", 1)

	d := p.next(deliveries)
	for failures := 1; failures <= 5; failures++ {
		rejected := time.Now()
		p.must("reject", d.Reject(true))
		d = p.next(deliveries)
		waited, nominal := time.Since(rejected), time.Duration(failures)*retryMin
		t.Logf("failure %d: back after %s", failures, waited.Round(time.Millisecond))
		if waited < nominal-earliness {
			t.Errorf("failure %d came back after %s, want at least %s", failures, waited, nominal)
		}
	}
}

// A shutdown that just closes its channel costs every prefetched message one of its attempts,
// even those nobody looked at (facts 1.1, 10.3).
func TestCleanChannelCloseCounts(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	ch := p.holdThree()
	p.must("close channel", ch.Close())

	_, deliveries := p.consume("probe", "next", 3)
	for range 3 {
		p.wantCounts(p.next(deliveries), 1, 1)
	}
}

// A shutdown that cancels, gives back and then closes costs nothing (facts 1.1, 10.3).
func TestCancelNackCloseDoesNotCount(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	ch := p.holdThree()
	p.must("cancel", ch.Cancel("holder", false))
	p.must("nack all", ch.Nack(0, true, true))
	p.must("close channel", ch.Close())

	_, deliveries := p.consume("probe", "next", 3)
	for range 3 {
		p.wantCounts(p.next(deliveries), -1, 1)
	}
}

// holdThree leaves three messages of the queue "probe" unacknowledged in the hands of "holder".
func (p *probe) holdThree() *amqp.Channel {
	p.Helper()
	p.queue("probe", 5)
	ch, deliveries := p.consume("probe", "holder", 3)
	for i := range 3 {
		p.publish("probe", "m"+strconv.Itoa(i))
		p.wantCounts(p.next(deliveries), -1, -1)
	}
	return ch
}
