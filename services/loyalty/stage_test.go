package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
	"example.com/outboxlab/scripts/wait"
)

// What do the tests of this package stand on?

var awaitLimit = wait.Limit

// stage is a lab with a look into its database and its broker.
type stage struct {
	*lab.Lab
	db *pgxpool.Pool
	ch *amqp.Channel
}

func newStage(t *testing.T) stage {
	t.Helper()
	l := lab.ForTest(t)
	return stage{l, l.Owner(t), l.Channel(t)}
}

// loyalty starts the service on the stage and waits until it is attached to its queue.
func (s stage) loyalty(t *testing.T, more ...string) *lab.Running {
	t.Helper()
	env := map[string]string{"DATABASE_URL": s.LoyaltyURL, "AMQP_URL": s.AMQPURL, "LOYALTY_ADDR": "127.0.0.1:0", "LOG_LEVEL": "debug", "LOYALTY_PREFETCH": fullWindow}
	for i := 0; i < len(more); i += 2 {
		env[more[i]] = more[i+1]
	}
	r := lab.Start(t, run, env)
	lab.Poll(t, awaitLimit, "ready", func() (bool, error) {
		status, body, err := get(r.URL() + "/readyz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%s", body)
		}
		return status == http.StatusOK, err
	})
	return r
}

func get(url string) (int, string, error) {
	response, err := http.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// placed is the message of an order of 100 KZT, as the relay sends it.
func placed(order int64) amqp.Publishing {
	return amqp.Publishing{
		MessageId: uuid.NewString(), Type: "order.placed", ContentType: "application/json", DeliveryMode: amqp.Persistent,
		Body: fmt.Appendf(nil, `{"orderId":%d,"customerId":101,"totalKzt":100}`, order),
	}
}

func (s stage) publish(t *testing.T, messages ...amqp.Publishing) {
	t.Helper()
	for _, m := range messages {
		lab.Publish(t, s.ch, "order.placed", m)
	}
}

const (
	countAwards = `SELECT count(*) FROM loyalty.ledger`
	countInbox  = `SELECT count(*) FROM loyalty.processed_messages`
)

// wideners are the orders from here on that have been placed only to be awarded.
const wideners = 1_000_000

// fullWindow is the prefetch of the tests: four messages, each handled alone, open the window that far.
const fullWindow = "16"

// widen has some orders awarded one after the other, so that loyalty, just started, takes as many messages in hand as it may.
func (s stage) widen(t *testing.T) {
	t.Helper()
	for order := wideners; order < wideners+5; order++ {
		s.publish(t, placed(int64(order)))
		lab.AwaitOne(t, s.db, 1, countAwards+` WHERE order_id = $1`, order)
	}
}

// lockLedger makes every award wait until unlock.
func (s stage) lockLedger(t *testing.T) (unlock func()) {
	t.Helper()
	lock, err := s.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), `LOCK TABLE loyalty.ledger`); err != nil {
		t.Fatal(err)
	}
	unlock = func() { _ = lock.Rollback(context.WithoutCancel(t.Context())) }
	t.Cleanup(unlock)
	return unlock
}

// awaitIdle waits until nothing is left to do, and stops the service. A message in hand is not in the queue, and is given
// back when the service stops; then another one goes on.
func (s stage) awaitIdle(t *testing.T, r *lab.Running) {
	t.Helper()
	lab.Poll(t, awaitLimit, "nothing left", func() (bool, error) {
		lab.AwaitReady(t, s.ch, topology.Queue, 0)
		if err := r.Stop(); err != nil {
			t.Errorf("stopped with %v", err)
		}
		if lab.Ready(t, s.ch, topology.Queue) == 0 {
			return true, nil
		}
		r = s.loyalty(t)
		return false, nil
	})
}

// awaitBlocked waits until loyalty's session waits for a lock.
func awaitBlocked(t *testing.T, db *pgxpool.Pool) {
	t.Helper()
	lab.AwaitOne(t, db, 1, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'loyalty' AND wait_event_type = 'Lock'`)
}
