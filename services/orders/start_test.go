package main

import (
	"errors"
	"strings"
	"testing"

	"example.com/outboxlab/pkg/service"
	"example.com/outboxlab/scripts/lab"
)

// What no waiting heals ends the service at its start, with the database's words; a database that is not there does not.
func TestAtItsStartItEndsOverWhatNoWaitingHeals(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	for says, url := range map[string]string{
		"password authentication failed": strings.Replace(l.OrdersURL, "orders_app:", "orders_app:x", 1),
		"does not exist":                 strings.Replace(l.OrdersURL, l.Name, l.Name+"x", 1),
		"permission":                     l.LoyaltyURL,
	} {
		_, err := lab.Run(t, run, map[string]string{"DATABASE_URL": url, "ORDERS_ADDR": "127.0.0.1:0"})
		if err == nil || !strings.Contains(err.Error(), says) || errors.As(err, new(service.UsageError)) {
			t.Errorf("%s: %v", says, err)
		}
	}
	r := lab.Start(t, run, map[string]string{"DATABASE_URL": "postgres://u:p@127.0.0.1:1/d", "ORDERS_ADDR": "127.0.0.1:0"})
	r.AwaitOutput("reaching the database: .*trying again")
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
}
