package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
	"example.com/outboxlab/scripts/wait"
)

// refuse makes the database refuse updates of the outbox for which the condition holds.
func refuse(t *testing.T, db *pgxpool.Pool, condition string) {
	t.Helper()
	refuseWith(t, db, "P0001", condition)
}

// refuseWith does so with this SQLSTATE.
func refuseWith(t *testing.T, db *pgxpool.Pool, code, condition string) {
	t.Helper()
	lab.Exec(t, db, `CREATE FUNCTION orders.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF `+condition+` THEN RAISE EXCEPTION 'row % is refused', new.id USING ERRCODE = '`+code+`'; END IF; RETURN new; END $$`)
	lab.Exec(t, db, `CREATE TRIGGER refuse BEFORE UPDATE ON orders.outbox FOR EACH ROW EXECUTE FUNCTION orders.refuse()`)
}

// triggerWith refuses like that, with this SQLSTATE.
func triggerWith(code, condition string) func(*testing.T, *pgxpool.Pool) {
	return func(t *testing.T, db *pgxpool.Pool) { t.Helper(); refuseWith(t, db, code, condition) }
}

// refusalCase is a way in which the database can refuse one row or several.
type refusalCase struct {
	name  string
	setUp func(*testing.T, *pgxpool.Pool)
	// guilty is the SQL condition for the rows that cannot be published and marked; all others must be.
	guilty string
	// mute rows cannot even be marked as failed; the others end dead.
	mute bool
	// lenient: the error may be the server's, so the first refusals do not count.
	lenient bool
	mode    string // only in this mode
}

func sql(text ...string) func(*testing.T, *pgxpool.Pool) {
	return func(t *testing.T, db *pgxpool.Pool) {
		t.Helper()
		for _, text := range text {
			lab.Exec(t, db, text)
		}
	}
}

func trigger(condition string) func(*testing.T, *pgxpool.Pool) {
	return func(t *testing.T, db *pgxpool.Pool) { t.Helper(); refuse(t, db, condition) }
}

var refusalCases = []refusalCase{
	{name: "the lowest cannot be marked", setUp: trigger(`new.id = 1 AND new.published_at IS NOT NULL`), guilty: `id = 1`},
	{name: "one in the middle cannot be marked", setUp: trigger(`new.id = 10 AND new.published_at IS NOT NULL`), guilty: `id = 10`},
	{name: "every seventh cannot be marked", setUp: trigger(`new.id % 7 = 0 AND new.published_at IS NOT NULL`), guilty: `id % 7 = 0`},
	{name: "the lowest cannot be changed", setUp: trigger(`new.id = 1`), guilty: `id = 1`, mute: true},
	{name: "the first 30 cannot be changed", setUp: trigger(`new.id <= 30`), guilty: `id <= 30`, mute: true},
	{name: "a constraint that was not checked", setUp: sql(`ALTER TABLE orders.outbox ADD CHECK (id <> 3) NOT VALID`), guilty: `id = 3`, mute: true},
	{name: "a trigger throws the change away", guilty: `id = 3`, mute: true, setUp: sql(
		`CREATE FUNCTION orders.swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF new.id = 3 THEN RETURN NULL; END IF; RETURN new; END $$`,
		`CREATE TRIGGER swallow BEFORE UPDATE ON orders.outbox FOR EACH ROW EXECUTE FUNCTION orders.swallow()`)},
	{name: "the commit fails", guilty: `id = 3`, setUp: sql(
		`CREATE FUNCTION orders.late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF new.id = 3 AND new.published_at IS NOT NULL THEN RAISE EXCEPTION 'late'; END IF; RETURN new; END $$`,
		`CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON orders.outbox DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION orders.late()`)},
	{name: "row security", setUp: sql(`CREATE POLICY not_this_one ON orders.outbox AS RESTRICTIVE FOR UPDATE USING (true) WITH CHECK (id <> 3)`), guilty: `id = 3`, mute: true},
	{name: "it cannot be read", guilty: `id = 3`, setUp: sql(`ALTER TABLE orders.outbox ALTER tenant_id DROP NOT NULL`,
		`UPDATE orders.outbox SET tenant_id = NULL WHERE id = 3`)},
	{name: "it cannot be leased", setUp: trigger(`new.id = 3 AND new.locked_until IS NOT NULL`), guilty: `id = 3`, mode: "lease"},
	{name: "it cannot be given back or settled", setUp: trigger(`new.id = 3 AND new.locked_until IS NULL`), guilty: `id = 3`, mute: true, mode: "lease"},
	{name: "a full disk, it says", setUp: triggerWith(`53100`, `new.id = 10 AND new.published_at IS NOT NULL`), guilty: `id = 10`, lenient: true},
	{name: "an administrator's command, it says", setUp: triggerWith(`57P01`, `new.id = 1 AND new.published_at IS NOT NULL`), guilty: `id = 1`, lenient: true},
	{name: "read-only, it says", setUp: triggerWith(`25006`, `new.id % 7 = 0`), guilty: `id % 7 = 0`, mute: true, lenient: true},
	{name: "a deadlock when it is leased", setUp: triggerWith(`40P01`, `new.id = 3 AND new.locked_until IS NOT NULL`), guilty: `id = 3`, mode: "lease", lenient: true},
	{name: "the first 300 cannot be marked", setUp: trigger(`new.id <= 300 AND new.published_at IS NOT NULL`), guilty: `id <= 300`},
	{name: "its trigger does not end", guilty: `id = 3`, lenient: true, mode: "tx", setUp: sql(
		`CREATE FUNCTION orders.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF new.id = 3 AND new.published_at IS NOT NULL THEN PERFORM pg_sleep(3600); END IF; RETURN new; END $$`,
		`CREATE TRIGGER slow BEFORE UPDATE ON orders.outbox FOR EACH ROW EXECUTE FUNCTION orders.slow()`)},
}

// A row that the database refuses stops no other one: all others are published and marked. It fails itself until it
// is dead or, if not even that can be written, is passed over, which is said.
func TestARowThatIsRefusedStopsNoOther(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"tx", "lease"} {
		for _, c := range refusalCases {
			if c.mode != "" && c.mode != mode {
				continue
			}
			t.Run(mode+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				l := lab.ForTest(t)
				db := l.Owner(t)
				tap := lab.NewTap(t, l.Channel(t))
				lab.Exec(t, db, insertEvents, 500)
				c.setUp(t, db)
				r := lab.Start(t, run, environment(l, "RELAY_CLAIM", mode, "RELAY_MAX_ATTEMPTS", "2", "RELAY_ADDR", "127.0.0.1:0"))
				lab.AwaitOne(t, db, 0, countPending+` AND NOT (`+c.guilty+`)`)
				awaitReady(t, r.URL())
				if c.mute {
					r.AwaitOutput("passed over")
				} else {
					lab.AwaitOne(t, db, 0, countPending)
				}
				guilty := lab.One[int](t, db, `SELECT count(*) FROM orders.outbox WHERE `+c.guilty)
				dead := lab.One[int](t, db, `SELECT count(*) FROM orders.outbox WHERE dead_lettered_at IS NOT NULL AND attempt_count = 2 AND last_error LIKE '%cannot be%'`)
				if c.mute && dead > 0 || !c.mute && dead != guilty {
					t.Errorf("%d dead of %d refused", dead, guilty)
				}
				lab.Exec(t, db, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', 'later', 'order.placed', '{}')`)
				lab.AwaitOne(t, db, 0, countPending+` AND aggregate_id = 'later'`)
				assertPublished(t, tap, 501-guilty, 501, 1)
				metrics := get(t, r.URL()+"/metrics")
				if !strings.Contains(metrics, `relay_refused_rows_total{step=`) {
					t.Error("no metric counts the refused")
				}
			})
		}
	}
}

// assertPublished waits until that many events are at the tap, and wants none of them more than times times.
func assertPublished(t *testing.T, tap *lab.Tap, atLeast, atMost, times int) {
	t.Helper()
	lab.Poll(t, wait.Limit, "all at the tap", func() (bool, error) {
		if n := len(count(tap)); n < atLeast {
			return false, fmt.Errorf("%d of %d", n, atLeast)
		}
		return true, nil
	})
	counts := count(tap)
	if len(counts) > atMost {
		t.Errorf("%d events published, want %d to %d", len(counts), atLeast, atMost)
	}
	for id, n := range counts {
		if n > times {
			t.Errorf("%s was published %d times", id, n)
		}
	}
}

// count says how often each message was at the tap.
func count(tap *lab.Tap) map[string]int {
	counts := map[string]int{}
	for _, m := range tap.Messages() {
		counts[m.MessageId]++
	}
	return counts
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// Rows begin to be refused while the relay is at work: it has published them, and finds out when it settles. The others
// of the batch are marked all the same, and none is sent again.
func TestRowsThatAreRefusedAfterTheyWerePublished(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"tx", "lease"} {
		for _, c := range refusalCases {
			if c.mode != "" && c.mode != mode || strings.Contains(c.guilty, "<=") {
				continue
			}
			if strings.Contains(c.name, "read") || strings.Contains(c.name, "leased") {
				continue // these are refused before
			}
			t.Run(mode+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				l := lab.ForTest(t)
				db := l.Owner(t)
				tap := lab.NewTap(t, l.Channel(t))
				lab.Exec(t, db, insertEvents, 20)
				r := newTestRelay(t, l, settings{claim: mode, batch: 100})
				r.maxAttempts = 3
				transport, err := r.open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(transport.Close)
				claim, err := r.claimer.Claim(t.Context(), 100, false)
				if err != nil || len(claim.Events) != 20 {
					t.Fatalf("%d events, %v", len(claim.Events), err)
				}
				results, err := r.publish(t.Context(), transport, claim.Events)
				if err != nil {
					t.Fatal(err)
				}
				if mode == "tx" {
					claim = released(t, claim) // the set-up would wait for its locks
				}
				c.setUp(t, db)
				done, err := claim.Settle(t.Context(), r.pool, results, 3)
				guilty := lab.One[int](t, db, `SELECT count(*) FROM orders.outbox WHERE `+c.guilty)
				if err != nil || done.Published != 20-guilty || done.Refused != guilty {
					t.Errorf("%+v, %v; want all but %d published", done, err, guilty)
				}
				if n := lab.One[int](t, db, countPending); n != guilty {
					t.Errorf("%d pending", n)
				}
				if !c.mute && !c.lenient && lab.One[int](t, db, `SELECT count(*) FROM orders.outbox WHERE attempt_count = 1 AND last_error LIKE 'published, but it cannot be marked%'`) != guilty {
					t.Error("no attempt was counted")
				}
				runRelay(t, r)
				lab.Exec(t, db, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload) SELECT 'order', 'later' || n, 'order.placed', '{}' FROM generate_series(1, 5) n`)
				lab.AwaitOne(t, db, 0, countPending+` AND NOT (`+c.guilty+`)`)
				if !c.mute {
					lab.AwaitOne(t, db, 0, countPending)
				}
				if strings.Contains(c.guilty, "%") {
					guilty++ // one of the new ones
				}
				assertPublished(t, tap, 25-guilty, 25, 1)
			})
		}
	}
}

// released is a claim of mode tx whose locks are gone, as if its transaction had failed already.
func released(t *testing.T, claim *Claim) *Claim {
	t.Helper()
	if err := claim.tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	claim.tx = nil
	return claim
}

// refuseAll are ways in which the database can refuse every row.
var refuseAll = map[string]func(*testing.T, *pgxpool.Pool){
	"any change":  trigger(`true`),
	"the mark":    trigger(`new.published_at IS NOT NULL`),
	"a full disk": triggerWith(`53100`, `true`),
	"too slow": sql(
		`CREATE FUNCTION orders.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(3600); RETURN new; END $$`,
		`CREATE TRIGGER refuse BEFORE UPDATE ON orders.outbox FOR EACH ROW EXECUTE FUNCTION orders.refuse()`),
	"each statement": sql(
		`CREATE FUNCTION orders.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$`,
		`CREATE TRIGGER refuse BEFORE UPDATE ON orders.outbox FOR EACH STATEMENT EXECUTE FUNCTION orders.refuse()`),
}

// If nothing at all can be marked, it is not the rows' fault: none of them spends its attempts, nothing is published
// again and again, and the relay says that it cannot work, and is not ready. Afterwards all are published. Some rows have
// failed before for another reason, which says nothing.
func TestATriggerThatRefusesAllRowsIsNobodysFault(t *testing.T) {
	t.Parallel()
	for name, setUp := range refuseAll {
		for _, mode := range []string{"tx", "lease"} {
			t.Run(mode+"/"+name, func(t *testing.T) {
				t.Parallel()
				l := lab.ForTest(t)
				db, ch := l.Owner(t), l.Channel(t)
				lab.Exec(t, db, insertEvents, 300)
				lab.Exec(t, db, `UPDATE orders.outbox SET attempt_count = 1, retry_at = now() WHERE id <= 50`)
				setUp(t, db)
				r := lab.Start(t, run, environment(l, "RELAY_CLAIM", mode, "RELAY_MAX_ATTEMPTS", "2", "RELAY_ADDR", "127.0.0.1:0"))
				r.AwaitOutput("(?s)(not one of several rows can be used.*){2}") // sessions
				if status := readiness(t, r.URL()); status != http.StatusServiceUnavailable {
					t.Errorf("/readyz answers %d while no row can be marked", status)
				}
				lab.Exec(t, db, insertEvents, 5)
				if n := lab.One[int](t, db, countPending+` AND attempt_count = CASE WHEN id <= 50 THEN 1 ELSE 0 END`); n != 305 {
					t.Errorf("%d pending without another attempt, want all 305", n)
				}
				if n := lab.Ready(t, ch, topology.Queue); n > 0 {
					t.Errorf("%d published, of which none can be marked", n)
				}
				if strings.Contains(r.Output(), "publishing works") {
					t.Error("it said that publishing works")
				}
				lab.Exec(t, db, `DROP TRIGGER refuse ON orders.outbox`)
				lab.AwaitOne(t, db, 0, countPending)
				if n := lab.Ready(t, ch, topology.Queue); n != 305 {
					t.Errorf("%d messages of 305 events", n)
				}
				awaitReady(t, r.URL())
			})
		}
	}
}

func readiness(t *testing.T, url string) int {
	t.Helper()
	response, err := http.Get(url + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// More rows than a batch, all at the head of the outbox, are refused; there are others behind them.
func TestManyRowsThatAreRefusedStopNoOther(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"P0001", "53100"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			l := lab.ForTest(t)
			db := l.Owner(t)
			lab.Exec(t, db, insertEvents, 2500)
			refuseWith(t, db, code, `new.id <= 2400`)
			lab.Start(t, run, environment(l, "RELAY_BATCH", "1000"))
			lab.AwaitOne(t, db, 2400, countPending)
			if n := lab.One[int](t, db, countPending+` AND id > 2400`); n != 0 {
				t.Errorf("%d of the others are pending", n)
			}
		})
	}
}

// Orders that come one by one meet a trigger that refuses all. Not more than the first one is blamed.
func TestATriggerThatRefusesAllRowsOneByOne(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	refuse(t, db, `new.published_at IS NOT NULL`)
	r := lab.Start(t, run, environment(l, "RELAY_MAX_ATTEMPTS", "1"))
	lab.Exec(t, db, insertEvents, 1)
	lab.AwaitOne(t, db, 0, countPending) // dead: nothing spoke against it
	for range 3 {
		lab.Exec(t, db, insertEvents, 1)
		r.AwaitOutput("not one of several rows can be used")
	}
	if n := lab.One[int](t, db, countPending+` AND attempt_count = 0`); n != 3 {
		t.Errorf("%d pending without an attempt, want 3", n)
	}
}

// The same while batches are under way: what was published by then is not published again and again.
func TestATriggerThatBeginsToRefuseAllRows(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"tx", "lease"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := lab.ForTest(t)
			db, ch := l.Owner(t), l.Channel(t)
			r := lab.Start(t, run, environment(l, "RELAY_CLAIM", mode, "RELAY_BATCH", "50"))
			lab.Exec(t, db, insertEvents, 5)
			lab.AwaitOne(t, db, 0, countPending)
			refuse(t, db, `new.published_at IS NOT NULL`)
			lab.Exec(t, db, insertEvents, 500)
			r.AwaitOutput("not one of several rows can be used")
			lab.AwaitOne(t, db, true, `SELECT count(*) >= 2 FROM pg_stat_activity WHERE datname = current_database()`)
			lab.Exec(t, db, insertEvents, 5)
			r.AwaitOutput("(?s)(not one of several rows can be used.*){3}")
			if n := lab.Ready(t, ch, topology.Queue); n > 5+50 {
				t.Errorf("%d messages, want no more than the batch that was under way", n-5)
			}
			lab.Exec(t, db, `DROP TRIGGER refuse ON orders.outbox`)
			lab.AwaitOne(t, db, 0, countPending)
		})
	}
}

// An attempt that cannot be written down holds nobody up either.
func TestAFailureThatCannotBeWrittenDown(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"tx", "lease"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := lab.ForTest(t)
			db, ch := l.Owner(t), l.Channel(t)
			lab.Exec(t, db, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', 'lost', 'nobody.listens', '{}'), ('order', 'lost too', 'nobody.listens', '{}')`)
			lab.Exec(t, db, insertEvents, 20)
			refuse(t, db, `new.attempt_count > 0 AND new.id = 1`)
			r := lab.Start(t, run, environment(l, "RELAY_CLAIM", mode, "RELAY_MAX_ATTEMPTS", "1"))
			lab.AwaitOne(t, db, 1, countPending)
			r.AwaitOutput("cannot be marked as failed, passed over")
			if n := lab.Ready(t, ch, topology.Queue); n != 20 {
				t.Errorf("%d messages", n)
			}
			if n := lab.One[int](t, db, `SELECT id FROM orders.outbox WHERE dead_lettered_at IS NOT NULL`); n != 2 {
				t.Errorf("dead: %d, want the other one", n)
			}
		})
	}
}

// Two relays, one row to which nothing can be written: each finds that out for itself.
func TestTwoRelaysAndARowThatIsRefused(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"tx", "lease"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := lab.ForTest(t)
			db := l.Owner(t)
			tap := lab.NewTap(t, l.Channel(t))
			lab.Exec(t, db, insertEvents, 1001)
			refuse(t, db, `new.id = 1`)
			for range 2 {
				lab.Start(t, run, environment(l, "RELAY_CLAIM", mode, "RELAY_BATCH", "100"))
			}
			lab.AwaitOne(t, db, 1, countPending)
			assertPublished(t, tap, 1000, 1001, 3)
		})
	}
}

// `relay --once` remembers nothing from one time to the next, and gets past the row all the same.
func TestOnceGetsPastARowThatIsRefused(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"tx", "lease"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := lab.ForTest(t)
			db, ch := l.Owner(t), l.Channel(t)
			lab.Exec(t, db, insertEvents, 4)
			refuse(t, db, `new.id = 1`)
			for left := range 3 {
				_, err := lab.Run(t, run, environment(l, "RELAY_CLAIM", mode, "RELAY_BATCH", "1"), "--once")
				if err == nil || !strings.Contains(err.Error(), "the database refused 1 rows") {
					t.Errorf("%v", err)
				}
				if n := lab.One[int](t, db, countPending); n != 3-left {
					t.Fatalf("%d pending, want %d", n, 3-left)
				}
			}
			if n := lab.Ready(t, ch, topology.Queue); n != 3 {
				t.Errorf("%d messages", n)
			}
		})
	}
}

// What a hand decides about a row in flight stands: the settle leaves it alone, and settles its neighbours.
func TestWhatAHandDecidesAboutARowInFlightStands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, hand, stands string }{
		{"dead", `UPDATE orders.outbox SET dead_lettered_at = now() WHERE id IN (1, 2, 3)`, `dead_lettered_at IS NOT NULL AND attempt_count = 0`},
		{"published", `UPDATE orders.outbox SET published_at = '2001-01-01' WHERE id IN (1, 2, 3)`, `published_at = '2001-01-01' AND attempt_count = 0 AND dead_lettered_at IS NULL`},
		{"deleted", `DELETE FROM orders.outbox WHERE id IN (1, 2, 3)`, ``},
		{"requeued", `UPDATE orders.outbox SET dead_lettered_at = now(), attempt_count = 5 WHERE id IN (1, 2, 3)`, `published_at IS NULL AND attempt_count = 0 AND lock_token IS NULL AND retry_at <= now()`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := lab.ForTest(t)
			db := l.Owner(t)
			lab.Exec(t, db, insertEvents, 20)
			r := newTestRelay(t, l, settings{claim: "lease"})
			claim, err := r.claimer.Claim(t.Context(), 20, false)
			if err != nil || len(claim.Events) != 20 {
				t.Fatalf("%d events, %v", len(claim.Events), err)
			}
			lab.Exec(t, db, c.hand)
			if c.name == "requeued" {
				if printed, err := lab.Run(t, run, environment(l), "dead", "requeue", "--all"); err != nil || printed != "requeued 3\n" {
					t.Fatalf("%q, %v", printed, err)
				}
			}
			results := make([]error, 20)
			results[1], results[2], results[3], results[4] = &attemptError{"test", "a bad day"}, errUnknown, &attemptError{"test", "a bad day"}, errUnknown
			done, err := claim.Settle(t.Context(), r.pool, results, 10)
			if err != nil || done != (Settled{Published: 15, Failed: 1, Stale: 2}) {
				t.Errorf("%+v, %v", done, err)
			}
			if c.stands != "" {
				if n := lab.One[int](t, db, `SELECT count(*) FROM orders.outbox WHERE id <= 3 AND `+c.stands); n != 3 {
					t.Errorf("%d of 3 are as the hand has left them", n)
				}
			}
			if n := lab.One[int](t, db, `SELECT count(*) FROM orders.outbox WHERE id > 3 AND lock_token IS NOT NULL`); n != 0 {
				t.Errorf("%d neighbours are still leased", n)
			}
		})
	}
}

// The one row whose attempt has failed is decided by hand, or is locked. The others have been marked by then: they are counted once.
func TestAFailedRowThatIsNoMoreOursCountsOnce(t *testing.T) {
	t.Parallel()
	for name, decide := range map[string]func(*testing.T, *pgxpool.Pool){
		"dead":   sql(`UPDATE orders.outbox SET dead_lettered_at = now() WHERE id = 2`),
		"locked": func(t *testing.T, db *pgxpool.Pool) { t.Helper(); holdRow(t, db, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := lab.ForTest(t)
			db := l.Owner(t)
			lab.Exec(t, db, insertEvents, 20)
			r := newTestRelay(t, l, settings{claim: "lease"})
			claim, err := r.claimer.Claim(t.Context(), 20, false)
			if err != nil || len(claim.Events) != 20 {
				t.Fatalf("%d events, %v", len(claim.Events), err)
			}
			decide(t, db)
			results := make([]error, 20)
			results[1] = &attemptError{"test", "a bad day"}
			if done, err := claim.Settle(t.Context(), r.pool, results, 10); err != nil || done != (Settled{Published: 19, Stale: 1}) {
				t.Errorf("%+v, %v", done, err)
			}
		})
	}
}

// Somebody has locked a row in flight, which only a lease lets happen. Its neighbours are settled without it.
func TestALockedRowInFlightHoldsNoNeighbourUp(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	lab.Exec(t, db, insertEvents, 20)
	r := newTestRelay(t, l, settings{claim: "lease"})
	claim, err := r.claimer.Claim(t.Context(), 20, false)
	if err != nil {
		t.Fatal(err)
	}
	holdRow(t, db, 5)
	done, err := claim.Settle(t.Context(), r.pool, make([]error, 20), 10)
	if err != nil || done.Published != 19 || done.Stale != 1 {
		t.Errorf("%+v, %v", done, err)
	}
}

// A row that cannot be deleted, or that somebody has locked, keeps no other from being pruned, on its page or behind it.
func TestARowThatCannotBeDeletedKeepsNoOther(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		setUp func(*testing.T, *pgxpool.Pool)
		left  int
	}{
		"trigger": {sql(`CREATE FUNCTION orders.keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF old.id = 7 THEN RAISE EXCEPTION 'kept'; END IF; RETURN old; END $$`,
			`CREATE TRIGGER keep BEFORE DELETE ON orders.outbox FOR EACH ROW EXECUTE FUNCTION orders.keep()`), 1},
		"foreign key": {sql(`CREATE TABLE orders.seen (id bigint REFERENCES orders.outbox)`, `INSERT INTO orders.seen VALUES (7), (5500)`), 2},
		"deferred":    {sql(`CREATE TABLE orders.seen (id bigint REFERENCES orders.outbox DEFERRABLE INITIALLY DEFERRED)`, `INSERT INTO orders.seen VALUES (7), (5500)`), 2},
		"locked":      {func(t *testing.T, db *pgxpool.Pool) { t.Helper(); holdRow(t, db, 7) }, 1},
		"a whole page": {sql(`CREATE TABLE orders.seen (id bigint REFERENCES orders.outbox)`, `INSERT INTO orders.seen SELECT generate_series(1, 5000)`,
			`CREATE INDEX ON orders.seen (id)`), 5000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := lab.ForTest(t)
			db := l.Owner(t)
			lab.Exec(t, db, `INSERT INTO orders.outbox (event_id, aggregate_type, aggregate_id, event_type, payload, published_at)
				SELECT ('01900000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'order', n::text, 'order.placed', '{}', now() - interval '8 days' FROM generate_series(1, 6000) n`)
			c.setUp(t, db)
			p := newTestPruner(t, l, time.Hour)
			total := int64(0)
			lab.Poll(t, wait.Limit, "all others pruned", func() (bool, error) {
				n, err := p.all(t.Context())
				if total += n; err == nil && total < int64(6000-c.left) {
					err = fmt.Errorf("%d pruned", total)
				}
				return true, err
			})
		})
	}
}

// Of several dead events that are requeued together, one that the database refuses stays dead alone.
func TestADeadEventThatIsRefusedKeepsNoOtherDead(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	lab.Exec(t, db, insertEvents, 20)
	lab.Exec(t, db, `UPDATE orders.outbox SET dead_lettered_at = now()`)
	refuse(t, db, `new.id = 7`)
	printed, err := lab.Run(t, run, environment(l), "dead", "requeue", "--all")
	if err == nil || !strings.Contains(err.Error(), "row 7: ERROR: row 7 is refused") || printed != "requeued 19\n" {
		t.Errorf("%q, %v", printed, err)
	}
}

// The database's default isolation is stricter than what the relay needs: it asks for its own.
func TestAStricterDefaultIsolationChangesNothing(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"tx", "lease"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := lab.ForTest(t)
			db := l.Owner(t)
			tap := lab.NewTap(t, l.Channel(t))
			lab.Exec(t, db, fmt.Sprintf(`ALTER DATABASE %q SET default_transaction_isolation = 'serializable'`, lab.One[string](t, db, `SELECT current_database()`)))
			lab.Exec(t, db, insertRun, 50, 20)
			var relays []*lab.Running
			for range 3 {
				relays = append(relays, lab.Start(t, run, environment(l, "RELAY_CLAIM", mode, "RELAY_BATCH", "20")))
			}
			for range 20 {
				if _, err := lab.Run(t, run, environment(l), "status"); err != nil {
					t.Error(err)
				}
			}
			lab.AwaitOne(t, db, 0, countPending)
			assertOrder(t, db, tap, 1000)
			for _, r := range relays {
				if strings.Contains(r.Output(), "could not serialize") {
					t.Error("a relay met a serialization failure")
				}
			}
		})
	}
}

// Rows behind one of their aggregate that is passed over wait, since it was not published, and hold nobody else up.
func TestEventsBehindARowThatIsPassedOverWait(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	tap := lab.NewTap(t, l.Channel(t))
	lab.Exec(t, db, insertRun, 2000, 1)
	refuse(t, db, `new.id = 1`)
	lab.Exec(t, db, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload) SELECT 'customer', 'c' || n, 'order.placed', '{}' FROM generate_series(1, 500) n`)
	r := newTestRelay(t, l, settings{claim: "tx", batch: 100})
	runRelay(t, r)
	lab.AwaitOne(t, db, 2000, countPending)
	lab.AwaitOne(t, db, 0, countPending+` AND aggregate_type = 'customer'`)
	lab.Exec(t, db, `DROP TRIGGER refuse ON orders.outbox`)
	awaitNonePending(t, db)
	assertOrder(t, db, tap, 2500)
}
