package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"example.com/outboxlab/pkg/postgres"
	"example.com/outboxlab/scripts/lab"
)

// A default of the database or the role is not what the services ask for.
func TestASessionHasWhatItNeedsWhateverTheDefaults(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"serializable", "repeatable read"} {
		l := lab.ForTest(t)
		lab.Exec(t, l.Owner(t), `ALTER ROLE relay_app IN DATABASE `+l.Name+` SET default_transaction_isolation = '`+level+`'`)
		pool, err := postgres.Open(urlOf(t, l.RelayURL), "test", postgres.Options{NoJIT: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		if got := lab.One[string](t, pool, `SELECT concat_ws(', ', current_setting('transaction_isolation'), current_setting('jit'), current_setting('application_name'))`); got != "read committed, off, test" {
			t.Errorf("pool: %s", got)
		}
		config, err := postgres.ConnConfig(l.RelayURL)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		err = conn.QueryRow(t.Context(), `SELECT current_setting('transaction_isolation')`).Scan(&got)
		if err = errors.Join(err, conn.Close(context.WithoutCancel(t.Context()))); err != nil || got != "read committed" {
			t.Errorf("single connection: %s, %v", got, err)
		}
	}
}

func urlOf(t *testing.T, text string) (u postgres.URL) {
	t.Helper()
	if err := u.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return u
}
