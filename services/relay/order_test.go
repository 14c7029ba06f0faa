package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"example.com/outboxlab/pkg/rabbitmq"
	"example.com/outboxlab/pkg/service"
	"example.com/outboxlab/scripts/lab"
	"example.com/outboxlab/scripts/wait"
)

// insertRun writes $1 events of each of $2 aggregates, one after the other in turn.
const insertRun = `
INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload)
SELECT 'order', (1 + n % $2::int)::text, 'order.placed', jsonb_build_object('id', n)
FROM generate_series(0, $1::int * $2::int - 1) n`

// settings of a relay that a test runs inside.
type settings struct {
	claim string
	batch int
	poll  time.Duration // 0 = 20 ms
	wrap  func(Transport) Transport
}

// newTestRelay makes a relay on the lab, polling fast.
func newTestRelay(t *testing.T, l *lab.Lab, s settings) *Relay {
	t.Helper()
	var broker rabbitmq.URL
	if err := broker.UnmarshalText([]byte(l.AMQPURL)); err != nil {
		t.Fatal(err)
	}
	config := Config{
		DatabaseURL: databaseURL(t, l.RelayURL), AMQPURL: broker, Claim: s.claim, Batch: max(s.batch, 1),
		Poll: cmp.Or(s.poll, 20*time.Millisecond), PublishTimeout: 5 * time.Second, MaxAttempts: 1000,
	}
	pool, err := openPool(config.DatabaseURL, config.PublishTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	r := newRelay(config, pool, slog.New(slog.DiscardHandler), newMetrics(prometheus.NewRegistry()))
	if s.wrap != nil {
		open := r.open
		r.open = func(ctx context.Context) (Transport, error) {
			transport, err := open(ctx)
			if err != nil {
				return nil, err
			}
			return s.wrap(transport), nil
		}
	}
	return r
}

// runRelay runs r until the test ends, or until the function returned is called.
func runRelay(t *testing.T, r *Relay) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := service.KeepUp(ctx, r.log, "publishing", r.session); err != nil {
			t.Error(err)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// flaky is a real transport on a bad day: of every batch one event in ten fails without being sent,
// and one batch in ten is sent, confirmed, and the relay never hears of it.
type flaky struct{ Transport }

func (f flaky) Publish(ctx context.Context, batch []Event, window int) ([]error, error) {
	results := make([]error, len(batch))
	stopped := map[aggregate]bool{}
	var good []Event
	var at []int
	for i, e := range batch {
		switch {
		case stopped[e.aggregate()]:
			results[i] = errNotSent
		case rand.N(10) == 0:
			stopped[e.aggregate()] = true
			results[i] = &attemptError{"test", "a bad day"}
		default:
			good, at = append(good, e), append(at, i)
		}
	}
	sent, err := f.Transport.Publish(ctx, good, window)
	lost := rand.N(10) == 0
	for n, i := range at {
		results[i] = sent[n]
		if lost {
			results[i] = errUnknown
		}
	}
	if lost && err == nil {
		err = errors.New("the connection was lost")
	}
	return results, err
}

// The rule: for each aggregate, the first appearances of its events at a tap ascend in id. Repeats
// are allowed (r1 r2 r1 r2), a gap that is filled later is not (r2 r1).
func TestEventsOfAnAggregateArriveInOrder(t *testing.T) {
	for _, c := range []struct {
		name               string
		batch              int
		poll               time.Duration
		claim              string
		events, aggregates int
		wrap               func(Transport) Transport
	}{
		{"tx/bad days", 50, 0, "tx", 60, 20, func(t Transport) Transport { return flaky{t} }},
		{"lease/bad days", 50, 0, "lease", 60, 20, func(t Transport) Transport { return flaky{t} }},
		{"tx/hot aggregates", 500, time.Second, "tx", 5000, 10, nil},
		{"lease/hot aggregates", 500, time.Second, "lease", 5000, 10, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := lab.ForTest(t)
			db := l.Owner(t)
			tap := lab.NewTap(t, l.Channel(t))
			lab.Exec(t, db, insertRun, c.events, c.aggregates)
			for range 4 {
				runRelay(t, newTestRelay(t, l, settings{claim: c.claim, batch: c.batch, poll: c.poll, wrap: c.wrap}))
			}
			awaitNonePending(t, db)
			assertOrder(t, db, tap, c.events*c.aggregates)
		})
	}
}

// awaitNonePending waits as long as events go on being published.
func awaitNonePending(t *testing.T, db *pgxpool.Pool) {
	t.Helper()
	last, since := int64(-1), time.Now()
	lab.Poll(t, 4*awaitLimit, "all published", func() (bool, error) {
		n := lab.One[int64](t, db, countPending)
		if n != last {
			last, since = n, time.Now()
		}
		if n > 0 && time.Since(since) > awaitLimit {
			t.Fatalf("%d pending, and nothing published for %v", n, awaitLimit)
		}
		return n == 0, nil
	})
}

func assertOrder(t *testing.T, db *pgxpool.Pool, tap *lab.Tap, events int) {
	t.Helper()
	rows, err := db.Query(t.Context(), `SELECT event_id::text, id, aggregate_id FROM orders.outbox`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	ids, aggregates := map[string]int64{}, map[string]string{}
	for rows.Next() {
		var event, aggregate string
		var id int64
		if err := rows.Scan(&event, &id, &aggregate); err != nil {
			t.Fatal(err)
		}
		ids[event], aggregates[event] = id, aggregate
	}
	lab.Poll(t, awaitLimit, "all at the tap", func() (bool, error) {
		distinct := map[string]bool{}
		for _, m := range tap.Messages() {
			distinct[m.MessageId] = true
		}
		if len(distinct) < events {
			return false, fmt.Errorf("%d of %d", len(distinct), events)
		}
		return true, nil
	})
	seen, last, inversions := map[string]bool{}, map[string]int64{}, 0
	for _, m := range tap.Messages() {
		if seen[m.MessageId] {
			continue
		}
		seen[m.MessageId] = true
		aggregate := aggregates[m.MessageId]
		if ids[m.MessageId] < last[aggregate] {
			inversions++
		}
		last[aggregate] = max(last[aggregate], ids[m.MessageId])
	}
	if inversions > 0 {
		t.Errorf("%d of %d events arrived after a later one of their aggregate", inversions, events)
	}
}

var awaitLimit = wait.Limit

// Rows behind one that waits for its retry, or is another relay's or anybody's, however many, neither fill the batch nor
// are published.
func TestARunBehindAHeadHoldsNobodyElseUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ mode, head, is string }{
		{"tx", "waiting", `retry_at = now() + interval '1 hour', attempt_count = 1`},
		{"lease", "waiting", `retry_at = now() + interval '1 hour', attempt_count = 1`},
		{"tx", "leased", `locked_until = now() + interval '1 hour', lock_token = gen_random_uuid()`},
		{"lease", "leased", `locked_until = now() + interval '1 hour', lock_token = gen_random_uuid()`},
		{"tx", "locked", ``},
		{"lease", "locked", ``},
	} {
		t.Run(c.mode+"/"+c.head, func(t *testing.T) {
			t.Parallel()
			l := lab.ForTest(t)
			db := l.Owner(t)
			lab.Exec(t, db, insertRun, 20_000, 1)
			if c.head == "locked" {
				if _, err := begin(t, db).Exec(t.Context(), `SELECT FROM orders.outbox WHERE id = 1 FOR UPDATE`); err != nil {
					t.Fatal(err)
				}
			} else {
				lab.Exec(t, db, `UPDATE orders.outbox SET `+c.is+` WHERE id = 1`)
			}
			lab.Exec(t, db, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload)
				SELECT 'customer', n::text, 'order.placed', '{}' FROM generate_series(1, 5000) n`)
			runRelay(t, newTestRelay(t, l, settings{claim: c.mode, batch: 500}))
			lab.Poll(t, awaitLimit, "the others published", func() (bool, error) {
				return lab.One[int64](t, db, countPending+` AND aggregate_type = 'customer'`) == 0, nil
			})
			if n := lab.One[int64](t, db, countPending); n != 20_000 {
				t.Errorf("%d pending of the run, want all 20000", n)
			}
		})
	}
}

// A busy aggregate is drained batch after batch, without waiting for the poll, which never comes here.
func TestOneRelayDrainsABusyAggregate(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"tx", "lease"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := lab.ForTest(t)
			db := l.Owner(t)
			lab.Exec(t, db, insertRun, 1000, 1)
			runRelay(t, newTestRelay(t, l, settings{claim: mode, batch: 100, poll: time.Hour}))
			awaitNonePending(t, db)
		})
	}
}

// Requeued events come after those behind them in the order of their times. They leave first all the
// same: of each aggregate a claim finds only the first, however little it looks at.
func TestARequeuedEventGoesBeforeTheOneBehindIt(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	tap := lab.NewTap(t, l.Channel(t))
	const aggregates = 20
	lab.Exec(t, db, insertRun, 2, aggregates)
	lab.Exec(t, db, `UPDATE orders.outbox SET dead_lettered_at = now() WHERE id <= $1`, aggregates)
	lab.Exec(t, db, `UPDATE orders.outbox SET retry_at = now() - interval '1 minute', attempt_count = 3 WHERE id > $1`, aggregates)
	if err := requeue(t.Context(), db, DeadRequeueCmd{All: true}, io.Discard); err != nil {
		t.Fatal(err)
	}
	r := newTestRelay(t, l, settings{claim: "tx", batch: 100})
	if due := lab.One[int64](t, r.pool, `SELECT max(id) FROM (`+strings.Replace(selectDue, "FOR UPDATE OF o SKIP LOCKED", "", 1)+`) AS due`, 1000, 0); due != aggregates {
		t.Errorf("event %d is found to be due, and is behind another", due)
	}
	runRelay(t, r)
	awaitNonePending(t, db)
	assertOrder(t, db, tap, 2*aggregates)
}

func TestARunWhoseHeadFailedOnceIsPublishedInOrder(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"tx", "lease"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := lab.ForTest(t)
			db := l.Owner(t)
			tap := lab.NewTap(t, l.Channel(t))
			lab.Exec(t, db, insertRun, 600, 1)
			lab.Exec(t, db, `UPDATE orders.outbox SET retry_at = now() + interval '300 ms', attempt_count = 1 WHERE id = 1`)
			for range 2 {
				runRelay(t, newTestRelay(t, l, settings{claim: mode, batch: 500}))
			}
			awaitNonePending(t, db)
			assertOrder(t, db, tap, 600)
		})
	}
}
