package lab

// How does a test of the migrations get a database without any?

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
)

// EmptyDatabase makes a database with nothing in it, dropped when the test ends, and returns its owner's URL.
func EmptyDatabase(t testing.TB) string {
	t.Helper()
	l, err := describe(ServersForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := inPostgres(t.Context(), l.servers.Database, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), fmt.Sprintf(`CREATE DATABASE %s TEMPLATE template0`, quote(l.Name)))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dropDatabase(context.WithoutCancel(t.Context()), l.servers.Database, l.Name); err != nil {
			t.Error(err)
		}
	})
	return l.OwnerURL
}
