package main

import (
	"strings"
	"testing"

	"example.com/outboxlab/scripts/lab"
)

// In transaction mode each transaction may get another server process, and here there are fewer of them than clients.
func TestLoyaltyWorksThroughAPooler(t *testing.T) {
	t.Parallel()
	for mode, processes := range map[string]string{"session": "20", "transaction": "2"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			through := s.PgBouncer(t, mode, "default_pool_size = "+processes)
			r := s.loyalty(t, "DATABASE_URL", through(s.LoyaltyURL))
			s.widen(t)
			for order := range int64(50) {
				s.publish(t, placed(order+1), placed(order+1))
			}
			lab.AwaitOne(t, s.db, 50, countAwards+` WHERE order_id <= 50`)
			status, body, err := get(r.URL() + "/customers/101/points")
			if err != nil || status != 200 || !strings.Contains(body, `"points":55`) {
				t.Errorf("%d %s %v", status, body, err)
			}
			if output := r.Output(); strings.Contains(output, "failed") || strings.Contains(output, "trying again") {
				t.Errorf("it met trouble:\n%s", output)
			}
		})
	}
}
