package schema_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/migrations/schema"
	"example.com/outboxlab/scripts/lab"
)

func quiet(string) {}

// Two programs that start on one new database at the same moment both migrate it, and both succeed.
func TestTwoMigrationsOfOneDatabaseDoNotCollide(t *testing.T) {
	t.Parallel()
	url := lab.EmptyDatabase(t)
	inParallel(t, 2, func(int) error { return schema.Up(t.Context(), url, nil, quiet) })
}

// Roles belong to the cluster: databases that migrate at once meet there.
func TestFourDatabasesOfOneClusterMigrateAtOnce(t *testing.T) {
	t.Parallel()
	urls := []string{lab.EmptyDatabase(t), lab.EmptyDatabase(t), lab.EmptyDatabase(t), lab.EmptyDatabase(t)}
	inParallel(t, len(urls), func(i int) error {
		return schema.Up(t.Context(), urls[i], schema.Passwords{"orders_app": "orders_app", "relay_app": "relay_app", "loyalty_app": "loyalty_app"}, quiet)
	})
}

func inParallel(t *testing.T, n int, do func(int) error) {
	t.Helper()
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() {
			if err := do(i); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

func TestDownRemovesWhatUpMadeAndUpMakesItAgain(t *testing.T) {
	t.Parallel()
	url := lab.EmptyDatabase(t)
	for range 2 {
		var applied, removed []string
		if err := schema.Up(t.Context(), url, nil, func(s string) { applied = append(applied, s) }); err != nil {
			t.Fatal(err)
		}
		if err := schema.Down(t.Context(), url, func(s string) { removed = append(removed, s) }); err != nil {
			t.Fatal(err)
		}
		if len(applied) == 0 || len(applied) != len(removed) {
			t.Errorf("applied %v, removed %v", applied, removed)
		}
	}
}

func TestSchemasCanLiveInDatabasesOfTheirOwn(t *testing.T) {
	t.Parallel()
	url := lab.EmptyDatabase(t)
	if err := schema.Up(t.Context(), url, nil, quiet, "loyalty"); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	schemas := lab.One[[]string](t, pool, `SELECT array_agg(nspname::text) FROM pg_namespace WHERE nspname IN ('orders', 'loyalty')`)
	if !slices.Equal(schemas, []string{"loyalty"}) {
		t.Errorf("%v", schemas)
	}
}

// typedByHand is the statement of the workshop; it must go on working whatever columns come.
const typedByHand = `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', '999', 'order.placed', '{"orderId": "oops"}')`

func TestARowTypedByHandIsAnEvent(t *testing.T) {
	t.Parallel()
	db := lab.ForTest(t).Owner(t)
	lab.Exec(t, db, typedByHand)
	if got := lab.One[string](t, db, `SELECT concat_ws(' ', uuid_extract_version(event_id), event_version, published_at IS NULL) FROM orders.outbox`); got != "7 1 t" {
		t.Errorf("%s", got)
	}
}

// One row that the relay cannot read would stop every relay; the database does not take it.
func TestARowThatNoRelayCouldReadIsRefused(t *testing.T) {
	t.Parallel()
	db := lab.ForTest(t).Owner(t)
	for column, value := range map[string]string{
		"id": "-5", "created_at": "'infinity'", "retry_at": "'-infinity'", "locked_until": "'infinity'", "attempt_count": "2147483647",
	} {
		_, err := db.Exec(t.Context(), `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload, `+column+`)
			OVERRIDING SYSTEM VALUE VALUES ('order', '1', 'order.placed', '{}', `+value+`)`)
		if answer, ok := errors.AsType[*pgconn.PgError](err); !ok || answer.Code != "23514" {
			t.Errorf("%s = %s: %v", column, value, err)
		}
	}
}

// Each role can do what its service does, and nothing else: one row per statement.
func TestRolesHaveTheLeastTheyNeed(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	owner := l.Owner(t)
	lab.Exec(t, owner, typedByHand)
	lab.Exec(t, owner, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload, published_at) VALUES ('order', '1', 'order.placed', '{}', now())`)

	const forbidden, nothing = "42501", "nothing done"
	for _, c := range []struct{ url, sql, want string }{
		{l.OrdersURL, `INSERT INTO orders.orders (customer_id, total_kzt) VALUES (1, 1)`, ""},
		{l.OrdersURL, typedByHand, ""},
		{l.OrdersURL, `SELECT count(*) FROM orders.orders`, ""},
		{l.OrdersURL, `SELECT count(*) FROM orders.outbox`, forbidden},
		{l.OrdersURL, `UPDATE orders.outbox SET published_at = now()`, forbidden},
		{l.OrdersURL, `DELETE FROM orders.orders`, forbidden},
		{l.OrdersURL, `UPDATE orders.orders SET total_kzt = 1`, forbidden},
		{l.OrdersURL, `SELECT count(*) FROM loyalty.ledger`, forbidden},
		{l.OrdersURL, `CREATE TABLE orders.mine ()`, forbidden},

		{l.RelayURL, `SELECT count(*) FROM orders.outbox`, ""},
		{l.RelayURL, `SELECT id FROM orders.outbox FOR UPDATE SKIP LOCKED`, ""},
		{l.RelayURL, `UPDATE orders.outbox SET published_at = published_at`, ""},
		{l.RelayURL, `UPDATE orders.outbox SET payload = '{}'`, forbidden},
		{l.RelayURL, `UPDATE orders.outbox SET event_id = uuidv7()`, forbidden},
		{l.RelayURL, `DELETE FROM orders.outbox WHERE published_at IS NULL`, nothing},
		{l.RelayURL, `DELETE FROM orders.outbox`, ""}, // takes the published row only, see below
		{l.RelayURL, typedByHand, forbidden},
		{l.RelayURL, `SELECT count(*) FROM orders.orders`, forbidden},
		{l.RelayURL, `SELECT count(*) FROM loyalty.ledger`, forbidden},

		{l.LoyaltyURL, `INSERT INTO loyalty.ledger (customer_id, order_id, points) VALUES (1, 1, 1)`, ""},
		{l.LoyaltyURL, `INSERT INTO loyalty.processed_messages (consumer, message_id) VALUES ('x', uuidv7())`, ""},
		{l.LoyaltyURL, `UPDATE loyalty.ledger SET points = 0`, forbidden},
		{l.LoyaltyURL, `DELETE FROM loyalty.processed_messages`, ""}, // old ones, see INBOX_RETENTION
		{l.LoyaltyURL, `UPDATE loyalty.processed_messages SET processed_at = now()`, forbidden},
		{l.LoyaltyURL, `INSERT INTO loyalty.failures (consumer, message_id, last_error) VALUES ('x', uuidv7(), 'y')`, ""},
		{l.LoyaltyURL, `UPDATE loyalty.failures SET attempts = attempts + 1`, ""},
		{l.LoyaltyURL, `DELETE FROM loyalty.failures`, ""},
		{l.LoyaltyURL, `DELETE FROM loyalty.ledger`, forbidden},
		{l.LoyaltyURL, `SELECT count(*) FROM orders.outbox`, forbidden},
		{l.LoyaltyURL, `SELECT count(*) FROM orders.orders`, forbidden},
	} {
		if got := attempt(t, c.url, c.sql); got != c.want {
			t.Errorf("%s as %s: %q, want %q", c.sql, role(c.url), got, c.want)
		}
	}
	if n := lab.One[int64](t, owner, `SELECT count(*) FROM orders.outbox WHERE published_at IS NULL`); n != 2 {
		t.Errorf("%d pending rows left, want 2: the relay must not be able to delete them", n)
	}
	if n := lab.One[int64](t, owner, `SELECT count(*) FROM orders.outbox WHERE published_at IS NOT NULL`); n != 0 {
		t.Errorf("%d published rows left, want 0: the relay may delete them", n)
	}
}

// attempt runs sql as the URL's role and returns "", the SQLSTATE, or that no row was touched.
func attempt(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	tag, err := conn.Exec(t.Context(), sql)
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return answer.Code
	}
	if err != nil {
		t.Fatal(err)
	}
	if tag.Delete() && tag.RowsAffected() == 0 {
		return "nothing done"
	}
	return ""
}

func role(url string) string {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return url
	}
	return config.User
}
