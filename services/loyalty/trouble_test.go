package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
)

// Does trouble of the database cost a message anything, and does a message that alone meets it come to an end?

// refuse lets every ledger row that fits the condition fail with that SQLSTATE, until mend. A message
// that is not in the queue is in loyalty's hands, or counted and waiting for its retry.
func (s stage) refuse(t *testing.T, code, condition string) (mend func()) {
	t.Helper()
	lab.Exec(t, s.db, fmt.Sprintf(`CREATE OR REPLACE FUNCTION loyalty.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF %s THEN RAISE EXCEPTION 'refused with %s' USING ERRCODE = '%s'; END IF;
			RETURN NEW;
		END $$`, condition, code, code))
	lab.Exec(t, s.db, `CREATE TRIGGER refuse BEFORE INSERT ON loyalty.ledger FOR EACH ROW EXECUTE FUNCTION loyalty.refuse()`)
	return func() { lab.Exec(t, s.db, `DROP TRIGGER refuse ON loyalty.ledger`) }
}

// orders are the messages of orders 1 to n.
func orders(n int) []amqp.Publishing {
	var messages []amqp.Publishing
	for order := range n {
		messages = append(messages, placed(int64(order+1)))
	}
	return messages
}

// awaitTries waits until loyalty has come back from trouble, in vain, that many times more.
func awaitTries(t *testing.T, r *lab.Running, n int) {
	t.Helper()
	tries := func() int { return strings.Count(r.Output(), "trying again") }
	before := tries()
	lab.Poll(t, awaitLimit, "tries", func() (bool, error) { return tries() >= before+n, nil })
}

// Nothing can be awarded, for longer than all deliveries of a message would last. Each session that spent
// one would be seen here: there are more sessions than deliveries.
func TestTroubleOfTheServerSpendsNoDeliveries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code string
		wide bool
	}{
		{"53100", true}, {"57014", false}, {"57014", true}, {"40001", true}, {"58030", false}, {"25006", false}, {"XX000", false},
	} {
		t.Run(fmt.Sprintf("%s, window open %v", c.code, c.wide), func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			r := s.loyalty(t)
			if c.wide {
				s.widen(t)
			}
			mend := s.refuse(t, c.code, "true")
			const all = 10
			s.publish(t, orders(all)...)
			r.AwaitOutput("trying again")
			for range topology.DeliveryLimit + 2 {
				awaitTries(t, r, 1)
				if status, body, err := get(r.URL() + "/readyz"); err != nil || status != http.StatusServiceUnavailable {
					t.Errorf("readyz %d %s, %v", status, body, err)
				}
			}
			lab.AwaitReady(t, s.ch, topology.Queue, all)
			assertUncounted(t, s, all)
			mend()
			lab.AwaitOne(t, s.db, all, countAwards+` WHERE order_id < $1`, wideners)
			lab.Poll(t, awaitLimit, "ready", func() (bool, error) {
				status, _, err := get(r.URL() + "/readyz")
				return status == http.StatusOK, err
			})
			s.awaitIdle(t, r)
			if n := lab.Ready(t, s.ch, topology.DeadLetterQueue) + int(lab.One[int64](t, s.db, countFailures)); n != 0 {
				t.Errorf("%d in the DLQ or noted as failed", n)
			}
		})
	}
}

// One order meets what is usually the server's trouble. The others are awarded meanwhile; it is given up in the end, with
// its error.
func TestAMessageThatAloneMeetsTroubleIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, code     string
		refused        string // which awards
		before, behind int    // other orders
		wide           bool
		copies         int
	}{
		{"in the middle of a batch", "57014", "NEW.order_id = 999", 5, 6, true, 1},
		{"last of a batch", "57014", "NEW.order_id = 999", 9, 0, true, 1},
		{"alone", "57014", "NEW.order_id = 999", 0, 0, false, 1},
		{"with copies at the head", "57014", "NEW.order_id = 999", 0, 9, false, 4},
		{"disk full for one", "53100", "NEW.order_id = 999", 3, 6, true, 1},
		{"all of one customer", "57014", "NEW.customer_id = 101", 0, 0, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.refuse(t, c.code, c.refused)
			guilty := placed(999)
			messages := orders(c.before + c.behind)
			queue := append([]amqp.Publishing{}, messages[:c.before]...)
			for range c.copies {
				queue = append(queue, guilty)
			}
			queue = append(queue, messages[c.before:]...)
			var r *lab.Running
			if c.wide {
				r = s.loyalty(t)
				s.widen(t)
				s.inOneBatch(t, queue...)
			} else {
				s.publish(t, queue...)
				r = s.loyalty(t)
			}
			lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, c.copies)
			lab.AwaitOne(t, s.db, int64(len(messages)), countAwards+` WHERE order_id < $1`, wideners)
			if noted := lab.One[string](t, s.db, `SELECT last_error FROM loyalty.failures WHERE message_id = $1`, uuid.MustParse(guilty.MessageId)); noted != "refused with "+c.code {
				t.Errorf("noted %q", noted)
			}
			s.awaitIdle(t, r)
			for _, d := range lab.Take(t, s.ch, topology.DeadLetterQueue) {
				if d.MessageId != guilty.MessageId || read(d).failures() != topology.DeliveryLimit+1 {
					t.Errorf("%s dead after %d failures", d.Body, read(d).failures())
				}
			}
		})
	}
}

// A deadlock, or a serialization failure, has certainly changed nothing: the batch is tried again at once, as a batch.
func TestABatchThatCertainlyWasNotAwardedIsTriedAgainAtOnce(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"40001", "40P01", "55P03"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			r := s.loyalty(t)
			s.widen(t)
			lab.Exec(t, s.db, `CREATE SEQUENCE loyalty.tries`)
			lab.Exec(t, s.db, `GRANT USAGE ON loyalty.tries TO loyalty_app`)
			s.refuse(t, code, "NEW.order_id = 5 AND nextval('loyalty.tries') <= 2")
			s.inOneBatch(t, orders(8)[1:]...)
			lab.AwaitOne(t, s.db, 8, countAwards+` WHERE order_id < $1`, wideners)
			const count = `SELECT count(DISTINCT xmin::text) FROM loyalty.ledger WHERE order_id BETWEEN 2 AND 8`
			if n := lab.One[int64](t, s.db, count); n != 1 || strings.Contains(r.Output(), "trying again") {
				t.Errorf("%d transactions\n%s", n, r.Output())
			}
			s.awaitIdle(t, r)
		})
	}
}

// Somebody has typed a row for order 999 and not committed. That order waits, and only that order, although the
// award does not end with an error but with silence.
func TestAnOrderThatSomebodyHasLockedDelaysNoOther(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	lock, err := s.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	unlock := func() { _ = lock.Rollback(context.WithoutCancel(t.Context())) }
	t.Cleanup(unlock)
	if _, err := lock.Exec(t.Context(), `INSERT INTO loyalty.ledger (customer_id, order_id, points) VALUES (1, 999, 1)`); err != nil {
		t.Fatal(err)
	}
	s.publish(t, append([]amqp.Publishing{placed(999)}, orders(8)...)...)
	r := s.loyalty(t)
	lab.AwaitOne(t, s.db, 8, countAwards)
	unlock()
	lab.AwaitOne(t, s.db, 9, countAwards)
	s.awaitIdle(t, r)
}

// The database's default may be another isolation level. Two consumers, copies of each message: no failure, no trouble.
func TestAStricterDefaultIsolationChangesNothing(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"serializable", "repeatable read"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			lab.Exec(t, s.db, fmt.Sprintf(`ALTER DATABASE %s SET default_transaction_isolation = '%s'`, s.Name, level))
			first, second := s.loyalty(t), s.loyalty(t)
			const all = 60
			for _, m := range orders(all) {
				s.publish(t, m, m)
			}
			lab.AwaitOne(t, s.db, all, countAwards)
			s.awaitIdle(t, first)
			s.awaitIdle(t, second)
			for _, r := range []*lab.Running{first, second} {
				if strings.Contains(r.Output(), "trying again") || strings.Contains(r.Output(), "failed") {
					t.Error(r.Output())
				}
			}
		})
	}
}
