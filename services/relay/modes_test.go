package main

import (
	"testing"

	"example.com/outboxlab/scripts/lab"
)

// The client library has five ways to send a statement; each of them guesses types in its own way.
func TestTheRelayWorksInEveryQueryExecMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_describe", "describe_exec", "exec", "simple_protocol"} {
		for _, claim := range []string{"tx", "lease"} {
			l := lab.ForTest(t)
			db := l.Owner(t)
			env := environment(l, "DATABASE_URL", l.RelayURL+"&pool_max_conns=5&default_query_exec_mode="+mode, "RELAY_CLAIM", claim, "RELAY_MAX_ATTEMPTS", "1")
			lab.Exec(t, db, insertEvents, 20)
			lab.Exec(t, db, `UPDATE orders.outbox SET event_type = 'nobody.wants.it' WHERE id = 7`)
			for range 3 { // one that fails ends its batch early
				_, _ = lab.Run(t, run, env, "--once")
			}
			if n := lab.One[string](t, db, `SELECT concat_ws(' ', count(published_at), count(dead_lettered_at)) FROM orders.outbox`); n != "19 1" {
				t.Errorf("%s, %s: published and dead: %s", mode, claim, n)
			}
			for _, args := range [][]string{{"status"}, {"dead", "list"}, {"dead", "requeue", "7"}} {
				if _, err := lab.Run(t, run, env, args...); err != nil {
					t.Errorf("%s, %s: %v: %v", mode, claim, args, err)
				}
			}
			if n := lab.One[int64](t, db, countPending); n != 1 {
				t.Errorf("%s, %s: %d pending after the requeue", mode, claim, n)
			}
		}
	}
}
