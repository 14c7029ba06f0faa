package main

import (
	"testing"

	"example.com/outboxlab/scripts/lab"
)

// The client library has five ways to send a statement; each of them guesses types in its own way.
func TestOrdersWorksInEveryQueryExecMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		l := lab.ForTest(t)
		r := lab.Start(t, run, map[string]string{"DATABASE_URL": l.OrdersURL + "&pool_max_conns=3&default_query_exec_mode=" + mode, "ORDERS_ADDR": "127.0.0.1:0"})
		warm(t, r.URL())
		if t.Failed() {
			t.Fatal(mode)
		}
	}
}
