package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/pkg/postgres"
	"example.com/outboxlab/scripts/lab"
)

func environment(l *lab.Lab, more ...string) map[string]string {
	env := map[string]string{"DATABASE_URL": l.RelayURL, "AMQP_URL": l.AMQPURL, "LOG_LEVEL": "debug", "RELAY_POLL": "50ms"}
	for i := 0; i < len(more); i += 2 {
		env[more[i]] = more[i+1]
	}
	return env
}

// begin starts a transaction that is rolled back when the test ends, unless it has been committed.
func begin(t *testing.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

const insertEvents = `
INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload)
SELECT 'order', n::text, 'order.placed', jsonb_build_object('orderId', n, 'customerId', 1, 'totalKzt', 100)
FROM generate_series(1, $1::int) n`

const countPending = `SELECT count(*) FROM orders.outbox WHERE published_at IS NULL AND dead_lettered_at IS NULL`

// The message is the contract's, property by property.
func TestAnEventIsPublishedAsTheContractSays(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db, ch := l.Owner(t), l.Channel(t)
	lab.Exec(t, db, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload, traceparent, created_at)
		VALUES ('order', '7', 'order.placed', '{"orderId":9007199254740993}', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', '2026-01-02 03:04:05.678901Z')`)
	id := lab.One[string](t, db, `SELECT event_id::text FROM orders.outbox`)

	printed, err := lab.Run(t, run, environment(l), "--once")
	if err != nil || printed != "[relay] published 1: "+id[len(id)-8:]+"\n" {
		t.Fatalf("%q, %v", printed, err)
	}
	taken := lab.Take(t, ch, topology.Queue)
	if len(taken) != 1 {
		t.Fatalf("%d messages", len(taken))
	}
	m := taken[0]
	got := fmt.Sprint(m.MessageId, m.Type, m.RoutingKey, m.Exchange, m.ContentType, m.DeliveryMode, m.Timestamp.UTC(), string(m.Body))
	want := fmt.Sprint(id, "order.placed", "order.placed", "orders", "application/json", amqp.Persistent,
		time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), `{"orderId": 9007199254740993}`)
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	headers := amqp.Table{
		"x-event-version": int64(1), "x-aggregate-type": "order", "x-aggregate-id": "7", "x-tenant-id": "default",
		"x-event-time": "2026-01-02T03:04:05.678901Z", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	if fmt.Sprint(m.Headers) != fmt.Sprint(headers) {
		t.Errorf("headers %v\nwant    %v", m.Headers, headers)
	}
	if n := lab.One[int64](t, db, countPending); n != 0 {
		t.Errorf("%d pending", n)
	}
}

// Whoever writes a row by hand may write anything there; what is no trace context is not passed on as one.
func TestATraceContextThatIsNoneIsNotSent(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db, ch := l.Owner(t), l.Channel(t)
	lab.Exec(t, db, insertEvents, 2)
	lab.Exec(t, db, `UPDATE orders.outbox SET traceparent = CASE id WHEN 1 THEN 'nonsense' ELSE '00-00000000000000000000000000000000-b7ad6b7169203331-01' END`)
	if _, err := lab.Run(t, run, environment(l), "--once"); err != nil {
		t.Fatal(err)
	}
	for _, m := range lab.Take(t, ch, topology.Queue) {
		if trace, has := m.Headers["traceparent"]; has {
			t.Errorf("sent %v", trace)
		}
	}
}

func TestOncePublishesAtMostOneBatch(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	lab.Exec(t, db, insertEvents, 5)
	for _, left := range []int64{3, 1, 0, 0} {
		if _, err := lab.Run(t, run, environment(l, "RELAY_BATCH", "2"), "--once"); err != nil {
			t.Fatal(err)
		}
		if n := lab.One[int64](t, db, countPending); n != left {
			t.Fatalf("%d pending, want %d", n, left)
		}
	}
}

// Confirmed is not delivered: without `mandatory` the broker confirms a message that it throws away.
func TestAnUnroutableEventStaysPendingUntilAQueueIsBound(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db, ch := l.Owner(t), l.Channel(t)
	r := lab.Start(t, run, environment(l))
	lab.Exec(t, db, insertEvents, 1)
	lab.AwaitOne(t, db, 0, countPending)

	if err := ch.QueueUnbind(topology.Queue, "order.placed", topology.Exchange, nil); err != nil {
		t.Fatal(err)
	}
	lab.Exec(t, db, insertEvents, 20)
	r.AwaitOutput("unroutable")
	if n := lab.One[int64](t, db, countPending); n != 20 {
		t.Errorf("%d pending, want all 20", n)
	}
	if err := ch.QueueBind(topology.Queue, "order.placed", topology.Exchange, false, nil); err != nil {
		t.Fatal(err)
	}
	lab.AwaitOne(t, db, 0, countPending)
	if n := lab.Ready(t, ch, topology.Queue); n != 21 {
		t.Errorf("%d messages, want 21", n)
	}
}

func TestOnceFailsWhenAnEventStaysBehind(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	lab.Exec(t, db, insertEvents, 2)
	lab.Exec(t, db, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', '9', 'nobody.listens', '{}')`)
	_, err := lab.Run(t, run, environment(l), "--once")
	if err == nil || !strings.Contains(err.Error(), "1 of 3 events not published") {
		t.Errorf("%v", err)
	}
	if n := lab.One[int64](t, db, countPending); n != 1 {
		t.Errorf("%d pending, want the unroutable one", n)
	}
}

// A lower id commits after a higher one has been published (kamu-data/kamu-cli#1398). The relay asks for what is pending,
// not for what is above the last id it saw.
func TestALateCommitOfALowerIDIsPublished(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	lab.Start(t, run, environment(l))

	late := begin(t, db)
	if _, err := late.Exec(t.Context(), insertEvents, 1); err != nil {
		t.Fatal(err)
	}
	lab.Exec(t, db, insertEvents, 1)
	lab.AwaitOne(t, db, "2", `SELECT string_agg(id::text, ' ') FROM orders.outbox WHERE published_at IS NOT NULL`)
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	lab.AwaitOne(t, db, 0, countPending)
}

// A row that somebody else holds is passed over, not waited for.
func TestRowsHeldByAnotherArePassedOver(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	lab.Exec(t, db, insertEvents, 10)
	other := begin(t, db)
	if _, err := other.Exec(t.Context(), `SELECT FROM orders.outbox WHERE id <= 5 FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if _, err := lab.Run(t, run, environment(l), "--once"); err != nil {
		t.Fatal(err)
	}
	if got := lab.One[string](t, db, `SELECT string_agg(id::text, ' ' ORDER BY id) FROM orders.outbox WHERE published_at IS NULL`); got != "1 2 3 4 5" {
		t.Errorf("pending: %s", got)
	}
}

// Asked to stop under load, it finishes the batch in hand: what was sent is marked, so nothing is sent twice.
func TestStoppedUnderLoadItLeavesNoDuplicates(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db, ch := l.Owner(t), l.Channel(t)
	const total = 10_000
	lab.Exec(t, db, insertEvents, total)
	for range 20 {
		r := lab.Start(t, run, environment(l, "RELAY_BATCH", "50"))
		r.AwaitOutput("published 50")
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	pending := lab.One[int64](t, db, countPending)
	if sent := lab.Ready(t, ch, topology.Queue); int64(sent) != total-pending {
		t.Errorf("%d sent, %d marked", sent, total-pending)
	}
}

// A relay that stands still in the middle of a batch keeps its rows only for a while: the server ends its transaction.
func TestTheRowsOfAFrozenRelayBecomeFree(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	pool, err := openPool(databaseURL(t, l.RelayURL), 3*time.Second-idleMargin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	lab.Exec(t, l.Owner(t), insertEvents, 1)
	frozen, err := (&Claimer{pool: pool, floor: &floor{}}).Claim(t.Context(), 10, false)
	if err != nil || len(frozen.Events) != 1 {
		t.Fatalf("%+v, %v", frozen, err)
	}
	// The frozen relay does nothing more; a peer finds the row free.
	lab.AwaitOne(t, l.Owner(t), 1, `SELECT count(*) FROM (SELECT FROM orders.outbox FOR UPDATE SKIP LOCKED)`)
	if _, err := frozen.Settle(t.Context(), pool, []error{nil}, 10); err == nil {
		t.Error("a relay that lost its rows could settle them")
	}
	if n := lab.One[int64](t, l.Owner(t), countPending); n != 1 {
		t.Error("the late mark has changed the row")
	}
}

func databaseURL(t *testing.T, text string) postgres.URL {
	t.Helper()
	var u postgres.URL
	if err := u.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestWrongConfigurationIsFoundBeforeAnyConnection(t *testing.T) {
	t.Parallel()
	good := map[string]string{"DATABASE_URL": "postgres://u:secret@127.0.0.1:1/d", "AMQP_URL": "amqp://u:secret@127.0.0.1:1/"}
	lab.EachIsRefused(t, run, good, map[string][]string{
		"DATABASE_URL":          {"", "nonsense", "mysql://h/d"},
		"AMQP_URL":              {"", "nonsense", "http://h/", "amqp://u:secret@h:x/", "amqp://u:secret@h:99999/", "amqp://u:secret@h/?patience=1", "amqp://u:secret@h/?auth_mechanism=smile"},
		"RELAY_BATCH":           {"0", "-1", "x", "10001"},
		"RELAY_POLL":            {"0s", "x", "5"},
		"RELAY_PUBLISH_TIMEOUT": {"0s", "-1s", "1000h"},
		"RELAY_TRANSPORT":       {"pigeon"},
		"RELAY_CLAIM":           {"luck"},
		"RELAY_MAX_ATTEMPTS":    {"0", "x"},
		"RELAY_RETENTION":       {"-1s"},
		"RELAY_LISTEN":          {"perhaps"},
		"RELAY_ADDR":            {"nowhere"},
		"CRASH_AT":              {"relay.nowhere", "relay.mid-batch:0"},
		"CRASH_AFTER_PUBLISH":   {"x"},
	})
}
