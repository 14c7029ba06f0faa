package schema_test

// Do the commands say where a database stands, and leave alone what they do not understand?

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/migrations/schema"
	"example.com/outboxlab/scripts/lab"
)

// connect opens a pool on a database of EmptyDatabase.
func connect(t *testing.T, at string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// migrated returns the URL of a new database with all migrations, and a pool on it.
func migrated(t *testing.T) (string, *pgxpool.Pool) {
	t.Helper()
	at := lab.EmptyDatabase(t)
	if err := schema.Up(t.Context(), at, nil, quiet); err != nil {
		t.Fatal(err)
	}
	return at, connect(t, at)
}

func status(t *testing.T, at string) string {
	t.Helper()
	var lines []string
	if err := schema.Status(t.Context(), at, func(line string) { lines = append(lines, line) }); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

const contents = `SELECT coalesce(string_agg(relnamespace::regnamespace || '.' || relname, ' ' ORDER BY 1), 'nothing')
	FROM pg_class WHERE relkind = 'r' AND relnamespace IN (to_regnamespace('orders'), to_regnamespace('loyalty'))`

// What was applied by a newer program, or is recorded wrongly, is told by status and refused by up and down, which change nothing.
func TestWhatIsNotUnderstoodIsToldAndLeftAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ damage, told, refused string }{
		"a newer version": {
			`INSERT INTO loyalty.goose_db_version (version_id, is_applied) VALUES (99, true)`,
			"loyalty: version 99, which this program does not know: applied ", "loyalty: the database is at version 99, and this program knows versions up to",
		},
		"versions lost": {
			`DELETE FROM orders.goose_db_version WHERE version_id > 0`,
			"orders: its tables are there, and nothing tells", "orders: its tables are there, and orders.goose_db_version does not tell",
		},
		"version table lost": {
			`DROP TABLE orders.goose_db_version`,
			"orders: its tables are there, and nothing tells", "orders: its tables are there, and orders.goose_db_version does not tell",
		},
		"a version lost": {
			`DELETE FROM orders.goose_db_version WHERE version_id = 2`,
			"orders: 00002_relay_state.sql: pending", "orders: 00002_relay_state.sql is not applied, and a later one is",
		},
		"no writes": {
			`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$`,
			"orders: 00001_orders_and_outbox.sql: applied ", "takes no writes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, db := migrated(t)
			before := lab.One[string](t, db, contents)
			lab.Exec(t, db, c.damage)
			damaged := lab.One[string](t, db, contents)
			if got := status(t, at); !strings.Contains(got, c.told) {
				t.Errorf("status says\n%s\nwant %q in it", got, c.told)
			}
			for what, err := range map[string]error{
				"up": schema.Up(t.Context(), at, nil, quiet), "down": schema.Down(t.Context(), at, quiet),
			} {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("%s: %v, want %q", what, err, c.refused)
				}
			}
			if after := lab.One[string](t, db, contents); after != damaged {
				t.Errorf("before %s; damaged %s; then %s", before, damaged, after)
			}
		})
	}
}

// Looking into a database, and taking down what is not there, leave nothing in it. Tables of others are no obstacle.
func TestStatusAndDownOfAnEmptyDatabaseLeaveItEmpty(t *testing.T) {
	t.Parallel()
	at := lab.EmptyDatabase(t)
	var told []string
	if err := schema.Down(t.Context(), at, func(line string) { told = append(told, line) }); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(told); got != "[orders: nothing to remove loyalty: nothing to remove]" {
		t.Error(got)
	}
	if got := status(t, at); strings.Count(got, ": pending") != 6 {
		t.Errorf("status says\n%s", got)
	}
	db := connect(t, at)
	if got := lab.One[string](t, db, `SELECT concat_ws(' ', to_regnamespace('orders'), to_regnamespace('loyalty'))`); got != "" {
		t.Errorf("schemas made: %s", got)
	}
	lab.Exec(t, db, `CREATE SCHEMA orders`)
	lab.Exec(t, db, `CREATE TABLE orders.somebody_elses ()`)
	if err := schema.Up(t.Context(), at, nil, quiet); err != nil {
		t.Error(err)
	}
}

// With all roles and schemas there, an owner needs no other right: neither to connect elsewhere nor to make roles or schemas.
// What it may not do is said with the privilege that it lacks. Not parallel: the database postgres is everybody's.
func TestAnOwnerNeedsNoRightThatIsNotUsed(t *testing.T) {
	at, db := migrated(t) // the roles exist from here on
	lab.Exec(t, db, `DROP SCHEMA orders, loyalty CASCADE`)
	owner := "owner_of_" + lab.One[string](t, db, `SELECT current_database()`)
	for _, statement := range []string{
		`CREATE ROLE ` + owner + ` LOGIN PASSWORD 'owner'`,
		`CREATE SCHEMA orders AUTHORIZATION ` + owner, `CREATE SCHEMA loyalty AUTHORIZATION ` + owner,
		`REVOKE CONNECT ON DATABASE postgres FROM PUBLIC`,
	} {
		lab.Exec(t, db, statement)
	}
	t.Cleanup(func() {
		for _, statement := range []string{
			`GRANT CONNECT ON DATABASE postgres TO PUBLIC`, `REVOKE CONNECT ON DATABASE postgres FROM ` + owner, `DROP OWNED BY ` + owner, `DROP ROLE ` + owner,
		} {
			if _, err := db.Exec(context.WithoutCancel(t.Context()), statement); err != nil {
				t.Errorf("%s: %v", statement, err)
			}
		}
	})
	parsed, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	parsed.User = url.UserPassword(owner, "owner")
	at = parsed.String()

	for range 2 {
		if err := schema.Up(t.Context(), at, nil, quiet); err != nil {
			t.Fatal(err)
		}
	}
	withPassword := schema.Passwords{"loyalty_app": "loyalty_app"}
	if err := schema.Up(t.Context(), at, withPassword, quiet); err == nil || !strings.Contains(err.Error(), `GRANT CONNECT ON DATABASE postgres TO "`+owner) {
		t.Errorf("without CONNECT: %v", err)
	}
	lab.Exec(t, db, `GRANT CONNECT ON DATABASE postgres TO `+owner)
	if err := schema.Up(t.Context(), at, withPassword, quiet); err == nil || !strings.Contains(err.Error(), owner+" needs CREATEROLE") {
		t.Errorf("without CREATEROLE: %v", err)
	}
	lab.Exec(t, db, `REVOKE CONNECT ON DATABASE postgres FROM `+owner)
	if err := schema.Down(t.Context(), at, quiet); err != nil {
		t.Error(err)
	}
}

// privileges are those of the services' roles, one a line.
const privileges = `
SELECT string_agg(line, E'\n' ORDER BY line) FROM (
	SELECT concat_ws(' ', what, grantee::regrole, privilege_type) FROM (
		SELECT nspname::text, nspacl FROM pg_namespace WHERE nspname IN ('orders', 'loyalty')
		UNION ALL SELECT oid::regclass::text, relacl FROM pg_class WHERE relnamespace IN ('orders'::regnamespace, 'loyalty'::regnamespace)
		UNION ALL SELECT attrelid::regclass || '.' || attname, attacl FROM pg_attribute WHERE attrelid = 'orders.outbox'::regclass
	) AS of (what, acl), aclexplode(acl)
	WHERE grantee::regrole::text LIKE '%_app') AS lines (line)`

// A database that was restored without privileges, or whose roles were made anew, lets the services in again after up.
func TestLostGrantsAreGrantedAgain(t *testing.T) {
	t.Parallel()
	at, db := migrated(t)
	before := lab.One[string](t, db, privileges)
	for _, role := range []string{"relay_app", "loyalty_app"} {
		lab.Exec(t, db, `REVOKE ALL ON SCHEMA orders, loyalty FROM `+role)
		lab.Exec(t, db, `REVOKE ALL ON ALL TABLES IN SCHEMA orders, loyalty FROM `+role)
		lab.Exec(t, db, `REVOKE ALL ON ALL SEQUENCES IN SCHEMA orders, loyalty FROM `+role)
	}
	if lab.One[string](t, db, privileges) == before {
		t.Fatal("nothing was revoked")
	}
	var told []string
	if err := schema.Up(t.Context(), at, nil, func(line string) { told = append(told, line) }); err != nil {
		t.Fatal(err)
	}
	if after := lab.One[string](t, db, privileges); after != before || len(told) != 2 || !strings.Contains(told[0], "relay_app") {
		t.Errorf("told %v; before\n%s\nafter\n%s", told, before, after)
	}
	told = nil
	if err := schema.Up(t.Context(), at, nil, func(line string) { told = append(told, line) }); err != nil || len(told) != 0 {
		t.Errorf("the next up: %v, %v", told, err)
	}
}
