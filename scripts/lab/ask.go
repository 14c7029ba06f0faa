package lab

// How does a test look at what is in the database?

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/scripts/wait"
)

// Owner opens a pool of connections as the database's owner, closed when the test ends.
func (l *Lab) Owner(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), l.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Exec runs a statement and fails the test if that fails.
func Exec(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// One returns the single value that a query gives.
func One[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	rows, _ := pool.Query(t.Context(), sql, args...)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// AwaitOne waits until a query gives the single value wanted.
func AwaitOne[T comparable](t testing.TB, pool *pgxpool.Pool, want T, sql string, args ...any) {
	t.Helper()
	var last T
	defer func() {
		if t.Failed() {
			t.Logf("%s: %v, want %v", sql, last, want)
		}
	}()
	Poll(t, wait.Limit, sql, func() (bool, error) {
		rows, _ := pool.Query(t.Context(), sql, args...)
		value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
		last = value
		return value == want, err
	})
}

// All returns the single column that a query gives.
func All[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) []T {
	t.Helper()
	rows, _ := pool.Query(t.Context(), sql, args...)
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return values
}
