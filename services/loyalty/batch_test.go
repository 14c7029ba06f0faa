package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events"
	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
)

// inOneBatch has loyalty handle the messages together: while the ledger is locked, order 1 keeps it busy and the messages
// arrive.
func (s stage) inOneBatch(t *testing.T, messages ...amqp.Publishing) {
	t.Helper()
	unlock := s.lockLedger(t)
	s.publish(t, placed(1))
	awaitBlocked(t, s.db)
	s.publish(t, messages...)
	lab.AwaitReady(t, s.ch, topology.Queue, 0)
	unlock()
}

// What has arrived is awarded together, up to the limit, and nothing is waited for.
func TestWhatHasArrivedIsOneTransaction(t *testing.T) {
	t.Parallel()
	for limit, transactions := range map[string]int64{"100": 1, "4": 3} {
		t.Run("batch "+limit, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			r := s.loyalty(t, "LOYALTY_BATCH", limit)
			s.widen(t)
			var messages []amqp.Publishing
			for order := range int64(12) {
				messages = append(messages, placed(order+2))
			}
			s.inOneBatch(t, messages...)
			lab.AwaitOne(t, s.db, 13, countAwards+` WHERE order_id < $1`, wideners)
			const count = `SELECT count(DISTINCT xmin::text) FROM loyalty.ledger WHERE order_id BETWEEN 2 AND 13`
			if n := lab.One[int64](t, s.db, count); n != transactions {
				t.Errorf("12 messages in %d transactions, want %d", n, transactions)
			}
			s.awaitIdle(t, r)
		})
	}
}

// In one batch: a message twice, and another message of the same order. One award, two duplicates.
func TestCopiesInOneBatchAwardOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := s.loyalty(t)
	s.widen(t)
	m := placed(2)
	s.inOneBatch(t, m, m, placed(2), placed(3))
	r.AwaitOutput(`order 3: \+1 points`)
	if n := strings.Count(r.Output(), "duplicate, skipped"); n != 2 { // told before order 3, in the same batch
		t.Errorf("%d duplicates, want 2", n)
	}
	s.awaitIdle(t, r)
	if n := lab.One[int64](t, s.db, countAwards+` WHERE order_id = 2`); n != 1 {
		t.Errorf("%d awards", n)
	}
	if n := lab.Ready(t, s.ch, topology.DeadLetterQueue); n != 0 {
		t.Errorf("%d in the DLQ", n)
	}
}

// One message of a batch is refused by the database, one cannot be read: the others are awarded at once, in their first
// delivery, and each of the two has its own fate.
func TestOnlyTheGuiltyOfABatchIsRejected(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := s.loyalty(t)
	s.widen(t)
	lab.Exec(t, s.db, `ALTER TABLE loyalty.ledger ADD CONSTRAINT not_the_fifth CHECK (order_id <> 5)`)
	malformed := placed(4)
	malformed.Body = []byte("not JSON")
	guilty := placed(5)
	s.inOneBatch(t, placed(2), placed(3), malformed, guilty, placed(6), placed(7))
	lab.AwaitOne(t, s.db, 5, countAwards+` WHERE order_id < $1`, wideners)
	lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, 1)
	r.AwaitOutput(`failed: new row for relation "ledger" violates check constraint "not_the_fifth"`)
	lab.Exec(t, s.db, `ALTER TABLE loyalty.ledger DROP CONSTRAINT not_the_fifth`)
	r.AwaitOutput(`\(redelivered\) order 5: \+1 points`)
	s.awaitIdle(t, r)
	for line := range strings.Lines(r.Output()) {
		if strings.Contains(line, "redelivered") && !strings.Contains(line, events.ShortID(uuid.MustParse(guilty.MessageId))) {
			t.Errorf("an innocent message was delivered in vain: %s", line)
		}
	}
}

// The interleaving: two transactions hold what the other one wants next. Two consumers handle the same rows in different
// sequences, again and again; without one sequence for all, PostgreSQL ends one of two with "deadlock detected".
func TestConsumersOfTheSameMessagesDoNotDeadlock(t *testing.T) {
	t.Parallel()
	const rounds, size = 20, 200
	for _, c := range []struct {
		name   string
		sameID bool // the same messages; otherwise other messages of the same orders
	}{{"same messages", true}, {"same orders", false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			for round := range rounds {
				messages := make([]Message, size)
				for i := range messages {
					order := int64(round*size + i + 1)
					messages[i] = Message{uuid.New(), events.OrderPlaced{OrderID: order, CustomerID: 1, TotalKZT: 100}}
				}
				var consumers sync.WaitGroup
				for range 2 {
					consumers.Go(func() { awardShuffled(t, s.db, messages, c.sameID) })
				}
				consumers.Wait()
			}
			if n := lab.One[int64](t, s.db, countAwards); n != rounds*size {
				t.Errorf("%d awards, want %d", n, rounds*size)
			}
		})
	}
}

func awardShuffled(t *testing.T, db *pgxpool.Pool, messages []Message, sameID bool) {
	t.Helper()
	mine := slices.Clone(messages)
	rand.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
	for i := range mine {
		if !sameID {
			mine[i].ID = uuid.New()
		}
	}
	if _, err := Award(t.Context(), db, mine); err != nil {
		t.Error(err)
	}
}
