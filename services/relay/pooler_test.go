package main

import (
	"errors"
	"strings"
	"testing"

	"example.com/outboxlab/pkg/outbox"
	"example.com/outboxlab/pkg/postgres"
	"example.com/outboxlab/scripts/lab"
)

// Everything that a session keeps must come through: the time limit for a frozen relay, and wake-ups.
func TestTheRelayWorksThroughAPoolerInSessionMode(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	through := l.PgBouncer(t, "session")
	for _, claim := range []string{"tx", "lease"} {
		r := lab.Start(t, run, environment(l, "DATABASE_URL", through(l.RelayURL), "RELAY_CLAIM", claim, "RELAY_POLL", "1h"))
		lab.AwaitOne(t, db, 1, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'LISTEN%'`)
		for range 3 {
			lab.Exec(t, db, insertEvents, 50)
			lab.Exec(t, db, `NOTIFY `+outbox.Channel)
			lab.AwaitOne(t, db, 0, countPending)
		}
		if err := r.Stop(); err != nil {
			t.Errorf("stopped with %v", err)
		}
		if strings.Contains(r.Output(), "trying again") {
			t.Errorf("it met trouble:\n%s", r.Output())
		}
	}
	if _, err := lab.Run(t, run, environment(l, "DATABASE_URL", through(l.RelayURL)), "--once"); err != nil {
		t.Error(err)
	}
	pool, err := openPool(urlOf(t, through(l.RelayURL)), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if limit := lab.One[string](t, pool, `SELECT current_setting('idle_in_transaction_session_timeout') || ' ' || current_setting('jit')`); limit != "5s off" {
		t.Errorf("settings: %s", limit)
	}
}

func TestTheRelayRefusesAPoolerInTransactionMode(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	lab.Exec(t, l.Owner(t), insertEvents, 1)
	for _, settings := range [][]string{nil, {"server_round_robin = 1"}, {"default_pool_size = 1"}} {
		through := l.PgBouncer(t, "transaction", settings...)
		for _, args := range [][]string{nil, {"--once"}} {
			_, err := lab.Run(t, run, environment(l, "DATABASE_URL", through(l.RelayURL)), args...)
			if !errors.Is(err, postgres.ErrTransactionPooling) {
				t.Errorf("%v %v: %v", settings, args, err)
			}
		}
		if printed, err := lab.Run(t, run, map[string]string{"DATABASE_URL": through(l.RelayURL)}, "status"); err != nil || printed == "" {
			t.Errorf("status: %q, %v", printed, err)
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
