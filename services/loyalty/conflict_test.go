package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
)

// What becomes of a message whose order id was used before, for another order?

// says is the message of an order with that content.
func says(order, customer, total int) amqp.Publishing {
	m := placed(1)
	m.Body = fmt.Appendf(nil, `{"orderId":%d,"customerId":%d,"totalKzt":%d}`, order, customer, total)
	return m
}

func TestAnotherOrderOfTheSameIdIsParked(t *testing.T) {
	t.Parallel()
	copied := says(4, 101, 100)
	withItsID := says(4, 102, 100)
	withItsID.MessageId = copied.MessageId
	for _, c := range []struct {
		name   string
		second amqp.Publishing
		parked bool
	}{
		{"another customer", says(4, 102, 100), true},
		{"other points", says(4, 101, 9900), true},
		{"no points", says(4, 101, 99), true},
		{"both", says(4, 102, 500), true},
		{"another customer, with the first one's message id", withItsID, true},
		{"another total of the same points", says(4, 101, 199), false},
		{"the same", says(4, 101, 100), false},
		{"a copy", copied, false},
	} {
		for _, together := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in one batch %v", c.name, together), func(t *testing.T) {
				t.Parallel()
				s := newStage(t)
				r := s.loyalty(t)
				batch := []amqp.Publishing{says(2, 101, 100), c.second, says(3, 103, 100)}
				if together {
					s.widen(t)
					s.inOneBatch(t, append([]amqp.Publishing{copied}, batch...)...)
				} else {
					s.publish(t, copied)
					lab.AwaitOne(t, s.db, 1, countAwards)
					s.publish(t, batch...)
				}
				lab.AwaitOne(t, s.db, 3, countAwards+` WHERE order_id IN (2, 3, 4)`)
				if c.parked {
					lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, 1)
				} else {
					r.AwaitOutput("duplicate, skipped")
				}
				s.awaitIdle(t, r)
				handled := int64(0)
				if c.second.MessageId == copied.MessageId {
					handled = 1
				}
				s.assertConflict(t, c.second, c.parked, handled)
				if got := lab.One[int64](t, s.db, `SELECT customer_id FROM loyalty.ledger WHERE order_id = 4`); got != 101 {
					t.Errorf("order 4 belongs to customer %d", got)
				}
			})
		}
	}
}

// assertConflict looks for the traces of a message that is in conflict, or of one that is not. handled is how many inbox rows
// its id has all the same: another message may have it too.
func (s stage) assertConflict(t *testing.T, m amqp.Publishing, parked bool, handled int64) {
	t.Helper()
	dead := lab.Take(t, s.ch, topology.DeadLetterQueue)
	if !parked {
		if n := lab.One[int64](t, s.db, countFailures); len(dead) != 0 || n != 0 {
			t.Errorf("%d in the DLQ, %d notes", len(dead), n)
		}
		return
	}
	if len(dead) != 1 || string(dead[0].Body) != string(m.Body) {
		t.Fatalf("%d in the DLQ", len(dead))
	}
	id := uuid.MustParse(m.MessageId)
	if note := lab.One[string](t, s.db, `SELECT last_error FROM loyalty.failures WHERE message_id = $1`, id); !strings.HasPrefix(note, "conflict: order 4 has been awarded to customer 101 with 1 points") {
		t.Errorf("noted %q", note)
	}
	if n := lab.One[int64](t, s.db, countInbox+` WHERE message_id = $1`, id); n != handled {
		t.Errorf("%d inbox rows of its id", n)
	}
}

// Two messages of one batch say different things about an order that nobody has awarded: the first one is awarded. What was
// parked comes again, and is parked again, until somebody has made room for it.
func TestAConflictCanBeRedrivenAfterTheRepair(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := s.loyalty(t)
	s.widen(t)
	first, second, third := says(4, 101, 100), says(4, 102, 200), says(4, 103, 300)
	s.inOneBatch(t, first, second, third, says(5, 101, 100))
	lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, 2)
	s.mustDLQ(t, "redrive", second.MessageId)
	lab.Poll(t, awaitLimit, "refused again", func() (bool, error) { return strings.Count(r.Output(), "conflict -> DLQ (order 4") == 3, nil })
	lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, 2)
	if list := s.mustDLQ(t, "list", "--reason", "rejected", "--json"); strings.Count(list, "conflict: order 4 has been awarded to customer 101") != 2 {
		t.Error(list)
	}
	if _, page, err := get(r.URL() + "/metrics"); err != nil || !strings.Contains(page, "\nloyalty_conflicts_total 3\n") {
		t.Errorf("%v %s", err, page)
	}
	lab.Exec(t, s.db, `DELETE FROM loyalty.ledger WHERE order_id = 4`)
	s.mustDLQ(t, "redrive", second.MessageId)
	lab.AwaitOne(t, s.db, 2, `SELECT points::bigint FROM loyalty.ledger WHERE order_id = 4 AND customer_id = 102`)
	lab.AwaitOne(t, s.db, 1, countFailures)
	s.awaitIdle(t, r)
	lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, 1)
}
