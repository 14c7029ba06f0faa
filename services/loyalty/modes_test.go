package main

import (
	"strings"
	"testing"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
)

// The client library has five ways to send a statement; each of them guesses types in its own way.
func TestLoyaltyWorksInEveryQueryExecMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			lab.Exec(t, s.db, `ALTER TABLE loyalty.ledger ADD CONSTRAINT not_seven CHECK (order_id <> 7)`)
			url := s.LoyaltyURL + "&pool_max_conns=4&default_query_exec_mode=" + mode
			r := s.loyalty(t, "DATABASE_URL", url)
			for order := range int64(20) {
				s.publish(t, placed(order+1))
			}
			lab.AwaitOne(t, s.db, 19, countAwards)
			if status, body, err := get(r.URL() + "/customers/101/points"); err != nil || status != 200 || !strings.Contains(body, `"points":19`) {
				t.Errorf("%d %s %v", status, body, err)
			}
			lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, 1)
			printed, err := lab.Run(t, run, map[string]string{"DATABASE_URL": url, "AMQP_URL": s.AMQPURL}, "dlq", "list")
			if err != nil || !strings.Contains(printed, "violates check constraint") {
				t.Errorf("%v: %s", err, printed)
			}
		})
	}
}
