package main

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/pkg/postgres"
	"example.com/outboxlab/pkg/service"
	"example.com/outboxlab/scripts/lab"
)

// warm places many orders at the same time, and looks them up, so that all connections of the pool have their statements.
func warm(t *testing.T, url string) {
	t.Helper()
	const clients, each = 10, 5
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range each {
				placed := post(t, url+"/orders", `{"customerId":1,"totalKzt":1}`)
				if placed.status != http.StatusCreated {
					t.Errorf("POST: %+v", placed)
					return
				}
				if found := get(t, url+placed.header.Get("Location")); found.body != placed.body {
					t.Errorf("GET: %+v, placed %+v", found, placed)
				}
			}
		})
	}
	all.Wait()
}

// What was prepared before a change of the tables is out of date on each connection of the pool, one by one.
func TestAChangeOfTheTablesFailsNoOrder(t *testing.T) {
	t.Parallel()
	url, db := start(t)
	warm(t, url)
	for _, change := range []string{
		`ALTER TABLE orders.orders ALTER total_kzt TYPE bigint`,
		`ALTER TABLE orders.orders ALTER total_kzt TYPE integer`,
		`ALTER TABLE orders.orders ADD note text`,
		`ALTER TABLE orders.orders DROP note`,
		`ALTER TABLE orders.orders ALTER status TYPE varchar(20)`,
		`ALTER TABLE orders.outbox ADD note text NOT NULL DEFAULT ''`,
		`ALTER TABLE orders.outbox DROP note`,
		`ALTER TABLE orders.outbox ALTER payload TYPE json USING payload::text::json`,
		`ALTER TABLE orders.outbox ALTER traceparent TYPE varchar(100)`,
	} {
		lab.Exec(t, db, change)
		warm(t, url)
		if t.Failed() {
			t.Fatalf("after %s", change)
		}
	}
}

func TestALostConnectionFailsNoOrder(t *testing.T) {
	t.Parallel()
	url, db := start(t)
	for range 3 {
		warm(t, url)
		lab.Exec(t, db, `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'orders'`)
	}
	warm(t, url)
}

// A pooler, or a person, may take prepared statements away.
func TestALostPreparedStatementFailsNoOrder(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{`DISCARD ALL`, `DEALLOCATE ALL`} {
		l := lab.ForTest(t)
		pool := poolOf(t, l.OrdersURL)
		for range 3 {
			if _, err := Place(t.Context(), pool, NewOrder{CustomerID: 1, TotalKZT: 1}); err != nil {
				t.Fatalf("after %s: %v", statement, err)
			}
			if _, err := Find(t.Context(), pool, 1); err != nil {
				t.Fatalf("after %s: %v", statement, err)
			}
			lab.Exec(t, pool, statement)
		}
	}
}

// The trigger fails the first n times: a sequence counts, since it does not roll back.
const failFirst = `
CREATE SEQUENCE public.calls;
GRANT USAGE ON SEQUENCE public.calls TO orders_app;
CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('public.calls') <= %d THEN RAISE EXCEPTION 'on purpose' USING ERRCODE = '%s'; END IF;
    RETURN new;
END $$;
CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON orders.orders %s FOR EACH ROW EXECUTE FUNCTION public.fail()`

func TestAnOrderIsTriedAgainWhenItHasCertainlyNotHappened(t *testing.T) {
	t.Parallel()
	const at, whenCommitting = "", "DEFERRABLE INITIALLY DEFERRED"
	for _, c := range []struct {
		code   string
		times  int
		when   string
		status int
		calls  int64
	}{
		{"40001", 3, at, 201, 4},
		{"40P01", 3, at, 201, 4},
		{"40001", 3, whenCommitting, 201, 4},
		{"0A000", 1, whenCommitting, 201, 2},
		{"40001", 1000, at, 503, 10},
		{"53100", 1000, at, 503, 1},
		{"53200", 1000, whenCommitting, 503, 1},
		{"57014", 1000, at, 503, 1},
		{"P0001", 1000, at, 500, 1},
	} {
		t.Run(fmt.Sprint(c.code, c.times, c.when), func(t *testing.T) {
			t.Parallel()
			url, db := start(t)
			lab.Exec(t, db, fmt.Sprintf(failFirst, c.times, c.code, c.when))
			got := post(t, url+"/orders", `{"customerId":1,"totalKzt":1}`)
			if got.status != c.status || (got.status == 503) != (got.header.Get("Retry-After") != "") {
				t.Errorf("want %d, got %+v", c.status, got)
			}
			if calls := lab.One[int64](t, db, `SELECT last_value FROM public.calls`); calls != c.calls {
				t.Errorf("%d tries, want %d", calls, c.calls)
			}
			rows := lab.One[string](t, db, `SELECT concat_ws(' ', (SELECT count(*) FROM orders.orders), (SELECT count(*) FROM orders.outbox))`)
			if want := map[int]string{201: "1 1"}[c.status]; want != "" && rows != want || want == "" && rows != "0 0" {
				t.Errorf("orders and events: %s", rows)
			}
		})
	}
}

// Ready again as soon as an order could be written, and not before, without one being written.
func TestItIsNotReadyWhileOrdersCannotBeWritten(t *testing.T) {
	t.Parallel()
	for code, when := range map[string]string{"53100": "", "58030": "DEFERRABLE INITIALLY DEFERRED", "P0001": ""} {
		url, db := start(t)
		lab.Exec(t, db, fmt.Sprintf(failFirst, 1000, code, when))
		post(t, url+"/orders", `{"customerId":1,"totalKzt":1}`)
		for range 2 {
			if got := get(t, url+"/readyz"); got.status != http.StatusServiceUnavailable {
				t.Errorf("%s: ready while orders fail: %+v", code, got)
			}
		}
		lab.Exec(t, db, `DROP TRIGGER fail ON orders.orders`)
		if got := get(t, url+"/readyz"); got.status != http.StatusOK {
			t.Errorf("%s: not ready although orders can be written: %+v", code, got)
		}
		if n := lab.One[int64](t, db, `SELECT (SELECT count(*) FROM orders.orders) + (SELECT count(*) FROM orders.outbox)`); n != 0 {
			t.Errorf("%d rows written", n)
		}
	}
}

// Whatever the server's default is, orders asks for what it needs.
func TestAStricterDefaultIsolationFailsNoOrder(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"serializable", "repeatable read"} {
		l := lab.ForTest(t)
		lab.Exec(t, l.Owner(t), `ALTER DATABASE `+l.Name+` SET default_transaction_isolation = '`+level+`'`)
		r := lab.Start(t, run, map[string]string{"DATABASE_URL": l.OrdersURL, "ORDERS_ADDR": "127.0.0.1:0", "LOG_LEVEL": "debug"})
		warm(t, r.URL())
		pool := poolOf(t, l.OrdersURL)
		if got := lab.One[string](t, pool, `SELECT current_setting('transaction_isolation')`); got != "read committed" {
			t.Errorf("default %s: a session has %s", level, got)
		}
	}
}

func poolOf(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	config, err := service.Load[Config](func(name string) string { return map[string]string{"DATABASE_URL": url}[name] })
	if err != nil {
		t.Fatal(err)
	}
	pool, err := postgres.Open(config.DatabaseURL, "orders", postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}
