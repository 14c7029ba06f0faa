package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/rs/zerolog"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
	"example.com/outboxlab/scripts/stack/servers"
)

// One row of each kind that can never be sent, among rows that can.
func TestARowThatCannotBeSentHurtsOnlyItself(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"tx", "lease"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := lab.ForTest(t)
			db, ch := l.Owner(t), l.Channel(t)
			lab.Exec(t, db, insertEvents, 5)
			lab.Exec(t, db, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload) VALUES
				('order', 'oversize', 'order.placed', jsonb_build_object('x', repeat('x', 17 << 20))),
				('order', 'key', repeat('k', 300), '{}'),
				('order', 'unroutable', 'nobody.listens', '{}')`)
			lab.Exec(t, db, insertEvents, 5)
			r := lab.Start(t, run, environment(l, "RELAY_CLAIM", mode, "RELAY_MAX_ATTEMPTS", "1"))
			lab.AwaitOne(t, db, 0, countPending)
			if n := lab.Ready(t, ch, topology.Queue); n != 10 {
				t.Errorf("%d messages, want each good row once: 10", n)
			}
			for id, says := range map[string]string{"oversize": "above the limit", "key": "routing key", "unroutable": "no queue is bound"} {
				got := lab.One[string](t, db, `SELECT attempt_count || ' ' || last_error FROM orders.outbox WHERE aggregate_id = $1 AND dead_lettered_at IS NOT NULL`, id)
				if !strings.HasPrefix(got, "1 ") || !strings.Contains(got, says) {
					t.Errorf("%s: %s", id, got)
				}
			}
			if err := r.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A dead event is listed, requeued under its own event id, and no longer holds its aggregate back.
func TestADeadEventIsListedAndRequeued(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db, ch := l.Owner(t), l.Channel(t)
	lab.Exec(t, db, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', '1', 'order.lost', '{}'), ('order', '1', 'order.placed', '{}')`)
	env := environment(l, "RELAY_MAX_ATTEMPTS", "1")
	if _, err := lab.Run(t, run, env, "--once"); err == nil {
		t.Fatal("the unroutable event was published")
	}
	if _, err := lab.Run(t, run, env, "--once"); err != nil { // behind a dead row the aggregate goes on
		t.Fatal(err)
	}
	if n := lab.Ready(t, ch, topology.Queue); n != 1 {
		t.Fatalf("%d messages, want the second event", n)
	}
	id := lab.One[string](t, db, `SELECT event_id::text FROM orders.outbox WHERE dead_lettered_at IS NOT NULL`)
	list, err := lab.Run(t, run, env, "dead", "list")
	if err != nil || !strings.Contains(list, id) || !strings.Contains(list, "no queue is bound for order.lost") {
		t.Errorf("%s, %v", list, err)
	}
	asJSON, err := lab.Run(t, run, env, "dead", "list", "--json")
	if err != nil || !strings.Contains(asJSON, `"eventId":"`+id+`"`) {
		t.Errorf("%s, %v", asJSON, err)
	}
	if err := ch.QueueBind(topology.Queue, "order.lost", topology.Exchange, false, nil); err != nil {
		t.Fatal(err)
	}
	if printed, err := lab.Run(t, run, env, "dead", "requeue", "1"); err != nil || printed != "requeued 1\n" {
		t.Errorf("%q, %v", printed, err)
	}
	if _, err := lab.Run(t, run, env, "dead", "requeue", "1"); err == nil {
		t.Error("requeued an event that is not dead")
	}
	if _, err := lab.Run(t, run, env, "--once"); err != nil {
		t.Fatal(err)
	}
	taken := lab.Take(t, ch, topology.Queue)
	if len(taken) != 2 || taken[1].MessageId != id {
		t.Errorf("%d messages, the last not the one requeued", len(taken))
	}
}

// The broker refuses an event: its queue is full. That is the event's attempt; it is tried again later.
func TestARefusedEventIsTriedAgain(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db, ch := l.Owner(t), l.Channel(t)
	if _, err := ch.QueueDeclare("full", true, false, false, false, amqp.Table{
		amqp.QueueTypeArg: amqp.QueueTypeQuorum, "x-max-length": int64(1), "x-overflow": "reject-publish"}); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind("full", "order.full", topology.Exchange, false, nil); err != nil {
		t.Fatal(err)
	}
	const more = `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload) SELECT 'order', n::text, 'order.full', '{}' FROM generate_series(1, 20) n`
	r := lab.Start(t, run, environment(l))
	lab.Exec(t, db, more) // a queue may overshoot its limit by what was under way
	r.AwaitOutput("published")
	lab.Exec(t, db, more)
	r.AwaitOutput("refused by the broker")
	lab.Poll(t, awaitLimit, "all accepted, as room is made", func() (bool, error) {
		lab.Take(t, ch, "full")
		return lab.One[int64](t, db, countPending) == 0, nil
	})
}

// proxy is a path to the broker that can be cut, or made to swallow what the broker answers.
func proxy(t *testing.T, l *lab.Lab) (url string, p *toxiproxy.Proxy) {
	t.Helper()
	address, err := amqp.ParseURI(l.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p = toxiproxy.NewProxy(server, l.Name, "127.0.0.1:0", fmt.Sprintf("%s:%d", address.Host, address.Port))
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return strings.Replace(l.AMQPURL, fmt.Sprintf("%s:%d", address.Host, address.Port), p.Listen, 1), p
}

// An outage is nobody's fault: rows tried while the broker cannot be reached keep their attempts.
func TestAnOutageSpendsNoAttempts(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"tx", "lease"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := lab.ForTest(t)
			db := l.Owner(t)
			url, p := proxy(t, l)
			r := lab.Start(t, run, environment(l, "AMQP_URL", url, "RELAY_CLAIM", mode, "RELAY_MAX_ATTEMPTS", "1", "RELAY_PUBLISH_TIMEOUT", "1s"))
			lab.Exec(t, db, insertEvents, 1)
			lab.AwaitOne(t, db, 0, countPending)

			// The broker takes what is sent and confirms nothing.
			const swallow = `{"name": "swallow", "type": "timeout", "stream": "downstream", "attributes": {"timeout": 0}}`
			if _, err := p.Toxics.AddToxicJson(strings.NewReader(swallow)); err != nil {
				t.Fatal(err)
			}
			lab.Exec(t, db, insertEvents, 100)
			r.AwaitOutput("no confirm within 1s")
			// Then it cannot be reached at all.
			p.Stop()
			r.AwaitOutput("connection refused")
			if n := lab.One[int64](t, db, `SELECT sum(attempt_count) + count(last_error) FROM orders.outbox`); n != 0 {
				t.Errorf("%d attempts spent", n)
			}
			if err := p.Toxics.RemoveToxic(t.Context(), "swallow"); err != nil {
				t.Fatal(err)
			}
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			lab.AwaitOne(t, db, 0, countPending)
		})
	}
}

// A relay that slept past its lease: the peer publishes, and the late settle changes nothing.
func TestALateSettleChangesNothing(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	lab.Exec(t, db, insertEvents, 3)
	asleep := newTestRelay(t, l, settings{claim: "lease"})
	asleep.claimer.lease = time.Millisecond
	held, err := asleep.claimer.Claim(t.Context(), 10, false)
	if err != nil || len(held.Events) != 3 {
		t.Fatalf("%+v, %v", held, err)
	}
	peer := newTestRelay(t, l, settings{claim: "lease", batch: 10})
	var taken *Claim
	lab.Poll(t, awaitLimit, "the lease has run out", func() (bool, error) {
		taken, err = peer.claimer.Claim(t.Context(), 10, false)
		return err == nil && len(taken.Events) == 3, err
	})
	failed := &attemptError{"test", "a bad day"}
	late, err := held.Settle(t.Context(), asleep.pool, []error{nil, failed, errUnknown}, 10)
	if err != nil || late.Published != 0 || late.Failed != 0 || late.Stale != 2 {
		t.Errorf("the late settle: %+v, %v", late, err)
	}
	if n := lab.One[int64](t, db, `SELECT count(*) FROM orders.outbox WHERE locked_until > now() AND attempt_count = 0`); n != 3 {
		t.Errorf("%d rows as the peer left them, want 3", n)
	}
	if done, err := taken.Settle(t.Context(), peer.pool, []error{nil, nil, failed}, 10); err != nil || done.Published != 2 || done.Failed != 1 {
		t.Errorf("the peer's own: %+v, %v", done, err)
	}
}

// Each mode respects the other's claims, and a live lease is judged by the database's clock.
func TestALiveLeaseIsRespectedInBothModes(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	lab.Exec(t, l.Owner(t), insertEvents, 3)
	holder := newTestRelay(t, l, settings{claim: "lease"})
	held, err := holder.claimer.Claim(t.Context(), 10, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"tx", "lease"} {
		claim, err := newTestRelay(t, l, settings{claim: mode}).claimer.Claim(t.Context(), 10, false)
		if err != nil || len(claim.Events) != 0 {
			t.Errorf("%s took %d leased rows, %v", mode, len(claim.Events), err)
		}
	}
	// Released by token, a peer finds them at once.
	if _, err := held.Settle(t.Context(), holder.pool, []error{errUnknown, errUnknown, errUnknown}, 10); err != nil {
		t.Fatal(err)
	}
	claim, err := newTestRelay(t, l, settings{claim: "tx"}).claimer.Claim(t.Context(), 10, false)
	if err != nil || len(claim.Events) != 3 {
		t.Fatalf("%+v, %v", claim, err)
	}
	if err := claim.tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}

// A wake-up brings an event to the broker long before the next poll; a lost one is caught by the poll.
func TestAWakeUpIsFasterThanThePoll(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	r := lab.Start(t, run, environment(l, "RELAY_POLL", "1h", "RELAY_ADDR", "127.0.0.1:0"))
	awaitReady(t, r.URL())
	lab.AwaitOne(t, db, 1, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN outbox'`)
	lab.Exec(t, db, insertEvents, 1)
	lab.Exec(t, db, `NOTIFY outbox`)
	lab.AwaitOne(t, db, 0, countPending)

	// The listener's connection dies, and a notification with it. After it is back it looks once.
	lab.Exec(t, db, insertEvents, 1)
	lab.Exec(t, db, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN outbox'`)
	lab.AwaitOne(t, db, 0, countPending)
}

func awaitReady(t *testing.T, url string) {
	t.Helper()
	lab.Poll(t, awaitLimit, "ready", func() (bool, error) {
		response, err := http.Get(url + "/readyz")
		if err != nil {
			return false, err
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
}

func TestOldPublishedRowsArePrunedAndNoOthers(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	old := uuid.MustParse("01900000-0000-7000-8000-000000000000")
	lab.Exec(t, db, `INSERT INTO orders.outbox (event_id, aggregate_type, aggregate_id, event_type, payload, published_at, dead_lettered_at)
		SELECT (left($1::text, 24) || lpad(n::text, 12, '0'))::uuid, 'order', n::text, 'order.placed', '{}',
		       CASE WHEN n <= 12000 THEN now() - interval '8 days' END, CASE WHEN n = 12001 THEN now() - interval '8 days' END
		FROM generate_series(1, 12002) n`, old)
	lab.Exec(t, db, `UPDATE orders.outbox SET published_at = now() - interval '6 days' WHERE aggregate_id = '12000'`)
	if n, err := newTestPruner(t, l, 7*24*time.Hour).all(t.Context()); err != nil || n != 11_999 {
		t.Errorf("pruned %d, %v", n, err)
	}
	if left := lab.One[string](t, db, `SELECT string_agg(aggregate_id, ' ' ORDER BY id) FROM orders.outbox`); left != "12000 12001 12002" {
		t.Errorf("left: %s; want the young, the dead and the pending one", left)
	}
}

func TestOneRelayPrunesAtATime(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	lab.Exec(t, db, insertEvents, 1)
	lab.Exec(t, db, `UPDATE orders.outbox SET published_at = now() - interval '8 days', event_id = '01900000-0000-7000-8000-000000000000'`)
	other := begin(t, db)
	if _, err := other.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, int64(pruneLock)); err != nil {
		t.Fatal(err)
	}
	if n, err := newTestPruner(t, l, time.Hour).all(t.Context()); err != nil || n != 0 {
		t.Errorf("pruned %d while another relay was at it, %v", n, err)
	}
}

func newTestPruner(t *testing.T, l *lab.Lab, retention time.Duration) *pruner {
	t.Helper()
	r := newTestRelay(t, l, settings{claim: "tx"})
	return &pruner{pool: r.pool, retention: retention, log: r.log, metrics: r.metrics}
}

func TestStatusCountsTheBacklog(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	lab.Exec(t, db, insertEvents, 10)
	lab.Exec(t, db, `UPDATE orders.outbox SET published_at = now() WHERE id <= 3`)
	lab.Exec(t, db, `UPDATE orders.outbox SET retry_at = now() + interval '1 hour' WHERE id = 4`)
	lab.Exec(t, db, `UPDATE orders.outbox SET dead_lettered_at = now() WHERE id = 5`)
	lab.Exec(t, db, `UPDATE orders.outbox SET locked_until = now() + interval '1 hour' WHERE id = 6`)
	holdRow(t, db, 7)
	printed, err := lab.Run(t, run, environment(l), "status", "--json")
	if err != nil || !strings.HasPrefix(printed, `{"pending":6,"inFlight":2,"waiting":1,"dead":1,"oldestAgeSeconds":`) || !strings.Contains(printed, `"publishedLastMinute":3`) {
		t.Errorf("%s, %v", printed, err)
	}
}

func holdRow(t *testing.T, db *pgxpool.Pool, id int) {
	t.Helper()
	if _, err := begin(t, db).Exec(t.Context(), `SELECT FROM orders.outbox WHERE id = $1 FOR UPDATE`, id); err != nil {
		t.Fatal(err)
	}
}

// Rows that nobody listens for come first, and each is a batch. The probe of a new session is one of them;
// the others must not wait for it to succeed, nor for a poll after each failure: here it never comes.
func TestUnroutableRowsHoldNobodyElseUp(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"tx", "lease"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := lab.ForTest(t)
			db := l.Owner(t)
			lab.Exec(t, db, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload) SELECT 'lost', n::text, 'nobody.listens', '{}' FROM generate_series(1, 30) n`)
			lab.Exec(t, db, insertEvents, 5)
			lab.Start(t, run, environment(l, "RELAY_CLAIM", mode, "RELAY_BATCH", "1", "RELAY_POLL", "1h"))
			lab.AwaitOne(t, db, 0, countPending+` AND event_type = 'order.placed'`)
		})
	}
}

// A header that does not fit into a frame would end the connection, and with it every session that
// tries the row.
func TestARowWithAnEndlessHeaderHurtsOnlyItself(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	lab.Exec(t, db, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload, tenant_id) VALUES ('order', '1', 'order.placed', '{}', repeat('t', 200000))`)
	lab.Exec(t, db, insertEvents, 10)
	lab.Start(t, run, environment(l, "RELAY_MAX_ATTEMPTS", "1"))
	lab.AwaitOne(t, db, 0, countPending)
	if got := lab.One[string](t, db, `SELECT string_agg(id || ' ' || last_error, ', ') FROM orders.outbox WHERE dead_lettered_at IS NOT NULL`); !strings.HasPrefix(got, "1 headers of 200") {
		t.Errorf("dead: %s", got)
	}
}

// The broker ends the session over one event of a batch, since its own size limit is lower than
// ours. The next sessions send one by one, find it, and go on with the others.
func TestAnEventThatOffendsTheBrokerIsFound(t *testing.T) {
	t.Parallel()
	pair, err := servers.StartPrivate(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pair.Stop(context.WithoutCancel(t.Context())) })
	if _, err := pair.Rabbitmqctl(t.Context(), "eval", "application:set_env(rabbit, max_message_size, 5000), persistent_term:put(max_message_size, 5000)."); err != nil {
		t.Fatal(err)
	}
	l, err := lab.New(t.Context(), pair.URLs)
	if err != nil {
		t.Fatal(err)
	}
	db, ch := l.Owner(t), l.Channel(t)
	lab.Exec(t, db, insertEvents, 16)
	lab.Exec(t, db, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', '17', 'order.placed', jsonb_build_object('x', repeat('x', 6000)))`)
	lab.Start(t, run, environment(l, "RELAY_MAX_ATTEMPTS", "2"))
	// Orders keep coming: the offender must be found among others, twice.
	others := 16
	lab.Poll(t, awaitLimit, "the offender dead", func() (bool, error) {
		lab.Exec(t, db, insertEvents, 20)
		others += 20
		return lab.One[int64](t, db, `SELECT count(*) FROM orders.outbox WHERE dead_lettered_at IS NOT NULL`) == 1, nil
	})
	lab.AwaitOne(t, db, 0, countPending)
	if got := lab.One[string](t, db, `SELECT string_agg(aggregate_id || ' ' || last_error, ', ') FROM orders.outbox WHERE dead_lettered_at IS NOT NULL`); !strings.HasPrefix(got, "17 refused by the broker") {
		t.Errorf("dead: %s", got)
	}
	// Each time it ends a session in which it is not alone, what was under way with it goes out again.
	if n := lab.Ready(t, ch, topology.Queue); n < others || n > 2*others {
		t.Errorf("%d messages, want the %d others at least once, and few of them again", n, others)
	}
}

// A requeued run of one aggregate is claimed in a time that does not grow with its square.
func TestARequeuedRunIsPublishedInOrder(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	tap := lab.NewTap(t, l.Channel(t))
	lab.Exec(t, db, insertRun, 3000, 1)
	lab.Exec(t, db, `UPDATE orders.outbox SET dead_lettered_at = now(), attempt_count = 10`)
	if printed, err := lab.Run(t, run, environment(l), "dead", "requeue", "--all"); err != nil || printed != "requeued 3000\n" {
		t.Fatalf("%q, %v", printed, err)
	}
	lab.Exec(t, db, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', '2', 'order.placed', '{}')`)
	runRelay(t, newTestRelay(t, l, settings{claim: "tx", batch: 500}))
	awaitNonePending(t, db)
	assertOrder(t, db, tap, 3001)
}

// A hot aggregate on a slow path: one event at a time, each confirm takes its while, and the time for a
// batch is up long before the batch is. That is no outage.
func TestASlowPathIsNoOutage(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	url, p := proxy(t, l)
	const slow = `{"name": "slow", "type": "latency", "stream": "downstream", "attributes": {"latency": 50}}`
	if _, err := p.Toxics.AddToxicJson(strings.NewReader(slow)); err != nil {
		t.Fatal(err)
	}
	lab.Exec(t, db, insertRun, 100, 1)
	r := lab.Start(t, run, environment(l, "AMQP_URL", url, "RELAY_PUBLISH_TIMEOUT", "3s"))
	lab.AwaitOne(t, db, 0, countPending)
	if strings.Contains(r.Output(), "trying again") || strings.Contains(r.Output(), "not published") {
		t.Error("taken for an outage")
	}
}

// A batch is also bounded by what it needs in memory, whichever column that is in. The first row beyond
// the bound is still taken: one always is.
func TestABatchIsBoundedByBytes(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	for _, column := range []string{"payload", "tenant_id", "event_type"} {
		lab.Exec(t, db, `DELETE FROM orders.outbox`)
		lab.Exec(t, db, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload) SELECT 'order', n::text, 'order.placed', '{}' FROM generate_series(1, 20) n`)
		lab.Exec(t, db, `ALTER TABLE orders.outbox ALTER COLUMN payload SET STORAGE EXTERNAL`) // as large as it looks
		value := `repeat('x', 1000000)`
		if column == "payload" {
			value = `to_jsonb(` + value + `)`
		}
		lab.Exec(t, db, `UPDATE orders.outbox SET `+column+` = `+value)
		held, err := newTestRelay(t, l, settings{claim: "lease"}).claimer.Claim(t.Context(), 20, false)
		if err != nil || len(held.Events) != 5 {
			t.Errorf("%s: %d events of 1 MB, %v; want 5", column, len(held.Events), err)
		}
	}
}

// After a session that ended because of one event, the probe of the next one is confirmed, and says
// nothing of the events behind it: these go out one by one, until a batch of them has passed.
func TestAProbeDoesNotEndTheSearchForAnOffender(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	lab.Exec(t, l.Owner(t), insertEvents, 3)
	r := newTestRelay(t, l, settings{claim: "tx", batch: 100})
	transport, err := r.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.Close)
	r.oneByOne = true
	for _, c := range []struct {
		limit, published int
		searching        bool
	}{{1, 1, true}, {100, 2, false}} {
		done, err := r.publishBatch(t.Context(), transport, c.limit, false)
		if err != nil || done.Published != c.published {
			t.Fatalf("%+v, %v", done, err)
		}
		if r.oneByOne != c.searching {
			t.Errorf("after %d events: one by one = %v", c.published, r.oneByOne)
		}
	}
}
