package main

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"example.com/outboxlab/scripts/lab"
)

// In transaction mode each transaction may get another server process, and here there are fewer of them than clients.
func TestOrdersWorksThroughAPooler(t *testing.T) {
	t.Parallel()
	for mode, processes := range map[string]string{"session": "20", "transaction": "3"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := lab.ForTest(t)
			through := l.PgBouncer(t, mode, "default_pool_size = "+processes)
			r := lab.Start(t, run, map[string]string{"DATABASE_URL": through(l.OrdersURL), "ORDERS_ADDR": "127.0.0.1:0", "LOG_LEVEL": "debug"})
			if got := get(t, r.URL()+"/readyz"); got.status != http.StatusOK {
				t.Errorf("%+v", got)
			}
			const clients, each = 8, 10
			var all sync.WaitGroup
			for range clients {
				all.Go(func() {
					for range each {
						placed := post(t, r.URL()+"/orders", `{"customerId":1,"totalKzt":1}`)
						if placed.status != http.StatusCreated {
							t.Errorf("%+v", placed)
							return
						}
						if found := get(t, r.URL()+placed.header.Get("Location")); found.body != placed.body {
							t.Errorf("%+v", found)
						}
					}
				})
			}
			all.Wait()
			if _, err := lab.Run(t, run, map[string]string{"DATABASE_URL": through(l.OrdersURL)}, "place", "1", "1"); err != nil {
				t.Error(err)
			}
			counts := lab.One[string](t, l.Owner(t), `SELECT concat_ws(' ', (SELECT count(*) FROM orders.orders), (SELECT count(*) FROM orders.outbox))`)
			if want := fmt.Sprint(clients*each+1, clients*each+1); counts != want {
				t.Errorf("orders and events: %s, want %s", counts, want)
			}
		})
	}
}

// Without transactions there are no orders. The client is told to come again, and readiness says so.
func TestOrdersCannotWorkThroughAPoolerInStatementMode(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	through := l.PgBouncer(t, "statement")
	r := lab.Start(t, run, map[string]string{"DATABASE_URL": through(l.OrdersURL), "ORDERS_ADDR": "127.0.0.1:0"})
	if got := post(t, r.URL()+"/orders", `{"customerId":1,"totalKzt":1}`); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("order: %+v", got)
	}
	if got := get(t, r.URL()+"/readyz"); got.status != http.StatusServiceUnavailable {
		t.Errorf("ready: %+v", got)
	}
}
