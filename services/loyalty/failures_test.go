package main

import (
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
)

const countFailures = `SELECT count(*) FROM loyalty.failures`

// Every failure is counted under the last error's text; the message that succeeds at last takes the note away.
func TestWhyAMessageFailedIsKeptUntilItSucceeds(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	lab.Exec(t, s.db, `ALTER TABLE loyalty.ledger ADD CONSTRAINT none CHECK (order_id < 0)`)
	r := s.loyalty(t)
	s.publish(t, placed(1), placed(2))
	lab.AwaitOne(t, s.db, 2, countFailures+` WHERE consumer = 'loyalty.points' AND attempts = 2 AND last_seen > first_seen
		AND last_error = 'new row for relation "ledger" violates check constraint "none"'`)
	lab.Exec(t, s.db, `ALTER TABLE loyalty.ledger DROP CONSTRAINT none`)
	lab.AwaitOne(t, s.db, 2, countAwards)
	if n := lab.One[int64](t, s.db, countFailures); n != 0 {
		t.Errorf("%d notes left", n)
	}
	s.awaitIdle(t, r)
}

// What is refused is parked for a person, who wants to know why. Without an id there is nothing to note it under.
func TestWhyAMessageWasRefusedIsKept(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := s.loyalty(t)
	malformed, nameless, hostile := placed(1), placed(2), placed(3)
	malformed.Body = []byte(`{"orderId":1,"customerId":101,"totalKzt":1.5}`)
	nameless.MessageId = "17"
	hostile.Headers = amqp.Table{"x-event-version": "\x00\xff"} // no text that PostgreSQL takes
	s.publish(t, malformed, nameless, hostile)
	lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, 3)
	s.awaitIdle(t, r)
	for id, want := range map[string]string{
		malformed.MessageId: "malformed: totalKzt is not an integer from 1 to 2147483647",
		hostile.MessageId:   `malformed: x-event-version "\x00\xff" is not an integer`,
	} {
		got := lab.One[string](t, s.db, `SELECT last_error FROM loyalty.failures WHERE message_id = $1`, uuid.MustParse(id))
		if got != want {
			t.Errorf("kept %q, want %q", got, want)
		}
	}
	if n := lab.One[int64](t, s.db, countFailures); n != 2 {
		t.Errorf("%d notes", n)
	}
}

// A note that cannot be written changes nothing about what becomes of the message.
func TestANoteThatFailsHoldsNothingUp(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	lab.Exec(t, s.db, `REVOKE INSERT ON loyalty.failures FROM loyalty_app`)
	r := s.loyalty(t)
	m := placed(1)
	m.Body = nil
	s.publish(t, m, placed(2))
	lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, 1)
	lab.AwaitOne(t, s.db, 1, countAwards)
	r.AwaitOutput("failure not noted: permission denied")
	s.awaitIdle(t, r)
}
