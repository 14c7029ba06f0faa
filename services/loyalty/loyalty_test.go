package main

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
)

// The decision table: what becomes of a message. docs/guarantees.md has the same rows.
func TestWhatBecomesOfAMessage(t *testing.T) {
	t.Parallel()
	const parked, awarded = true, false
	for _, c := range []struct {
		name   string
		change func(*amqp.Publishing)
		parked bool
	}{
		{"as it should be", func(*amqp.Publishing) {}, awarded},
		{"version 1, said", func(m *amqp.Publishing) { m.Headers = amqp.Table{"x-event-version": int32(1)} }, awarded},
		{"a member more", func(m *amqp.Publishing) {
			m.Body = []byte(`{"orderId":1,"customerId":101,"totalKzt":100,"gift":true}`)
		}, awarded},
		{"ids beyond 2^53", func(m *amqp.Publishing) {
			m.Body = []byte(`{"orderId":9007199254740993,"customerId":101,"totalKzt":100}`)
		}, awarded},
		{"not JSON", func(m *amqp.Publishing) { m.Body = []byte("not  json\x00\xff") }, parked},
		{"nothing", func(m *amqp.Publishing) { m.Body = nil }, parked},
		{"a total of 1e20", func(m *amqp.Publishing) { m.Body = []byte(`{"orderId":1,"customerId":101,"totalKzt":1e20}`) }, parked},
		{"a fraction", func(m *amqp.Publishing) { m.Body = []byte(`{"orderId":1,"customerId":101,"totalKzt":1.5}`) }, parked},
		{"no message id", func(m *amqp.Publishing) { m.MessageId = "" }, parked},
		{"a message id that is no UUID", func(m *amqp.Publishing) { m.MessageId = "17" }, parked},
		{"the nil UUID as message id", func(m *amqp.Publishing) { m.MessageId = "00000000-0000-0000-0000-000000000000" }, parked},
		{"an unknown type", func(m *amqp.Publishing) { m.Type = "order.eaten" }, parked},
		{"a version from the future", func(m *amqp.Publishing) { m.Headers = amqp.Table{"x-event-version": int64(99)} }, parked},
		{"a version that is no number", func(m *amqp.Publishing) { m.Headers = amqp.Table{"x-event-version": "one"} }, parked},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			m := placed(1)
			c.change(&m)
			r := s.loyalty(t)
			s.publish(t, m)
			if !c.parked {
				lab.AwaitOne(t, s.db, 1, countAwards)
				s.awaitIdle(t, r)
				return
			}
			lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, 1)
			s.awaitIdle(t, r)
			if n := lab.One[int64](t, s.db, countAwards) + lab.One[int64](t, s.db, countInbox); n != 0 {
				t.Errorf("%d rows written", n)
			}
			if dead := lab.Take(t, s.ch, topology.DeadLetterQueue)[0]; !bytes.Equal(dead.Body, m.Body) || dead.MessageId != m.MessageId {
				t.Errorf("parked %q %q, want it as it came: %q %q", dead.MessageId, dead.Body, m.MessageId, m.Body)
			}
		})
	}
}

// Two consumers, every message five times: each order is awarded once, and a duplicate is a success, not a failure.
func TestCopiesOfAMessageAwardOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const orders = 50
	for order := range int64(orders) {
		m := placed(order + 1)
		s.publish(t, m, m, m, m, m)
	}
	first, second := s.loyalty(t), s.loyalty(t)
	lab.AwaitOne(t, s.db, orders, countAwards)
	s.awaitIdle(t, first)
	s.awaitIdle(t, second)
	if n := lab.One[int64](t, s.db, countAwards); n != orders {
		t.Errorf("%d awards, want %d", n, orders)
	}
	if n := lab.Ready(t, s.ch, topology.DeadLetterQueue); n != 0 {
		t.Errorf("%d in the DLQ", n)
	}
}

// The interleaving: two transactions handle the same message. The first has inserted its inbox row and not committed; the
// second must wait for it, and then find the message handled.
func TestOfTwoCopiesAtOnceTheSecondWaits(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	m := placed(1)
	first, err := s.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.Rollback(context.WithoutCancel(t.Context())) })
	if _, err := first.Exec(t.Context(), `INSERT INTO loyalty.processed_messages VALUES ($1, $2)`, consumerName, m.MessageId); err != nil {
		t.Fatal(err)
	}
	r := s.loyalty(t)
	s.publish(t, m)
	awaitBlocked(t, s.db)
	if err := first.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.AwaitOutput("duplicate, skipped")
	if n := lab.One[int64](t, s.db, countAwards); n != 0 {
		t.Errorf("%d awards by the second copy", n)
	}
}

// The ledger's own key is the last guard: a message that the inbox has forgotten awards nothing.
func TestAnOrderIsAwardedOnceEvenIfTheInboxForgets(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := s.loyalty(t)
	m := placed(1)
	s.publish(t, m)
	lab.AwaitOne(t, s.db, 1, countAwards)
	lab.Exec(t, s.db, `DELETE FROM loyalty.processed_messages`)
	s.publish(t, m)
	r.AwaitOutput("duplicate, skipped")
	lab.AwaitOne(t, s.db, 1, countInbox)
	s.awaitIdle(t, r)
	if n := lab.One[int64](t, s.db, countAwards); n != 1 {
		t.Errorf("%d awards", n)
	}
}

// An inbox that cannot be written to is a failure of the message, not a warning (warmbly/warmbly#123).
func TestWithoutItsInboxNothingIsAwarded(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := s.loyalty(t)
	s.publish(t, placed(1))
	lab.AwaitOne(t, s.db, 1, countAwards)
	lab.Exec(t, s.db, `ALTER TABLE loyalty.processed_messages RENAME TO gone`)
	s.publish(t, placed(2))
	r.AwaitOutput(`\(redelivered\) failed: relation "loyalty.processed_messages" does not exist`)
	if n := lab.One[int64](t, s.db, countAwards); n != 1 {
		t.Errorf("%d awards", n)
	}
	lab.Exec(t, s.db, `ALTER TABLE loyalty.gone RENAME TO processed_messages`)
	lab.AwaitOne(t, s.db, 2, countAwards)
	s.awaitIdle(t, r)
}

// On a database that has not been migrated it takes no messages, and spends none of their deliveries.
func TestWithoutItsTablesItTakesNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	lab.Exec(t, s.db, `ALTER TABLE loyalty.processed_messages RENAME TO gone`)
	s.publish(t, placed(1))
	r := lab.Start(t, run, map[string]string{"DATABASE_URL": s.LoyaltyURL, "AMQP_URL": s.AMQPURL, "LOYALTY_ADDR": "127.0.0.1:0", "LOG_LEVEL": "debug"})
	r.AwaitOutput("there is no table loyalty.processed_messages")
	assertUncounted(t, s, 1)
	lab.Exec(t, s.db, `ALTER TABLE loyalty.gone RENAME TO processed_messages`)
	lab.AwaitOne(t, s.db, 1, countAwards)
	s.awaitIdle(t, r)
}

// The database goes away while messages are in hand, for longer than all deliveries would last if each were spent.
func TestAnUnreachableDatabaseSpendsNoDeliveries(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := s.loyalty(t)
	restore := s.CutDatabase(t)
	s.publish(t, placed(1), placed(2), placed(3))
	r.AwaitOutput("trying again")
	lab.AwaitReady(t, s.ch, topology.Queue, 3) // given back, and the service does not take them up again
	if status, _, err := get(r.URL() + "/readyz"); err != nil || status != http.StatusServiceUnavailable {
		t.Errorf("readyz %d, %v", status, err)
	}
	assertUncounted(t, s, 3)
	restore()
	lab.AwaitOne(t, s.db, 3, countAwards)
	s.awaitIdle(t, r)
}

// assertUncounted looks at the messages of the queue and puts them back, uncounted, in their order.
func assertUncounted(t *testing.T, s stage, want int) {
	t.Helper()
	var last amqp.Delivery
	for i := range want {
		d, ok, err := s.ch.Get(topology.Queue, false)
		if err != nil || !ok {
			t.Fatalf("message %d: %v, %v", i+1, ok, err)
		}
		if count := d.Headers["x-delivery-count"]; count != nil {
			t.Errorf("message %d has been delivered %v times in vain", i+1, count)
		}
		last = d
	}
	if err := last.Nack(true, true); err != nil {
		t.Fatal(err)
	}
}

// Asked to stop with one message running and more in hand: it finishes the one and gives back the rest, uncounted.
func TestStoppedWithMessagesInHandItGivesThemBackUncounted(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := s.loyalty(t)
	s.widen(t)
	unlock := s.lockLedger(t)
	s.publish(t, placed(1))
	awaitBlocked(t, s.db)
	s.publish(t, placed(2), placed(3))
	lab.AwaitReady(t, s.ch, topology.Queue, 0) // all three are in hand
	r.Ask()
	unlock()
	if err := r.Stop(); err != nil {
		t.Errorf("stopped with %v", err)
	}
	if n := lab.One[int64](t, s.db, countAwards+` WHERE order_id < $1`, wideners); n != 1 {
		t.Errorf("%d awards, want the one that was running", n)
	}
	lab.AwaitReady(t, s.ch, topology.Queue, 2)
	assertUncounted(t, s, 2)
}

// The broker cancels the consumer: the channel stays open and no error is raised. Only a new session helps.
func TestACancelledConsumerComesBack(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := s.loyalty(t)
	if _, err := s.ch.QueueDelete(topology.Queue, false, false, false); err != nil {
		t.Fatal(err)
	}
	r.AwaitOutput("session ended by the broker")
	r.AwaitOutput("works again")
	s.publish(t, placed(1))
	lab.AwaitOne(t, s.db, 1, countAwards)
}

func TestPointsAreTheSumOfTheLedger(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := s.loyalty(t)
	s.publish(t, placed(1), placed(2))
	lab.AwaitOne(t, s.db, 2, countAwards)
	for path, want := range map[string]string{
		"/customers/101/points": `{"customerId":101,"points":2}`,
		"/customers/999/points": `{"customerId":999,"points":0}`,
	} {
		if status, body, err := get(r.URL() + path); err != nil || status != http.StatusOK || strings.TrimSpace(body) != want {
			t.Errorf("%s: %d %s %v", path, status, body, err)
		}
	}
	if status, _, err := get(r.URL() + "/customers/x/points"); err != nil || status != http.StatusUnprocessableEntity {
		t.Errorf("%d %v", status, err)
	}
}

func TestWrongConfigurationIsFoundBeforeAnyConnection(t *testing.T) {
	t.Parallel()
	good := map[string]string{"DATABASE_URL": "postgres://u:secret@127.0.0.1:1/d", "AMQP_URL": "amqp://u:secret@127.0.0.1:1/"}
	lab.EachIsRefused(t, run, good, map[string][]string{
		"DATABASE_URL":             {"", "nonsense"},
		"AMQP_URL":                 {"", "nonsense"},
		"LOYALTY_PREFETCH":         {"0", "-1", "x", "2001"},
		"LOYALTY_BATCH":            {"0", "x", "2001"},
		"LOYALTY_ADDR":             {"nowhere", "127.0.0.1:x"},
		"INBOX_RETENTION":          {"335h59m", "0", "x"}, // DLQ_RETENTION is 336h
		"DLQ_RETENTION":            {"0s", "721h"},        // INBOX_RETENTION is 720h
		"LOYALTY_CONSUMER_TIMEOUT": {"-1s", "1us"},
		"CRASH_AT":                 {"loyalty.nowhere"},
		"CRASH_BEFORE_ACK":         {"perhaps"},
	})
}
