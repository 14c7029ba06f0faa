package main

import (
	"testing"

	"example.com/outboxlab/scripts/lab"
)

// What was prepared before a change of the table is out of date. That is no attempt of any event.
func TestAChangeOfTheOutboxCostsNoAttempt(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	lab.Start(t, run, environment(l, "RELAY_MAX_ATTEMPTS", "1"))
	for _, change := range []string{
		`SELECT`,
		`ALTER TABLE orders.outbox ALTER event_type TYPE varchar(100)`,
		`ALTER TABLE orders.outbox ALTER event_version TYPE bigint`,
		`ALTER TABLE orders.outbox ADD note text NOT NULL DEFAULT ''`,
		`ALTER TABLE orders.outbox DROP note`,
	} {
		lab.Exec(t, db, change)
		lab.Exec(t, db, insertEvents, 20)
		lab.AwaitOne(t, db, 0, countPending)
	}
	if n := lab.One[int64](t, db, `SELECT count(*) FROM orders.outbox WHERE attempt_count > 0 OR dead_lettered_at IS NOT NULL`); n != 0 {
		t.Errorf("%d events have failed", n)
	}
}
