package main

import (
	"testing"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
)

// slowLedger makes every award take a while.
const slowLedger = `
CREATE FUNCTION loyalty.be_slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.01); RETURN NULL; END';
CREATE TRIGGER slow AFTER INSERT ON loyalty.ledger FOR EACH ROW EXECUTE FUNCTION loyalty.be_slow()`

// Six times a service with dozens of messages in hand and a slow database is asked to stop. Six failed deliveries would be
// the end of a message: that none is counted is what a deployment relies on (micronaut-projects/micronaut-rabbitmq#298).
func TestStoppedSixTimesItSpendsNoDeliveries(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	lab.Exec(t, s.db, slowLedger)
	published := int64(0)
	for stop := range 6 {
		for range 130 {
			published++
			s.publish(t, placed(published))
		}
		r := s.loyalty(t, "LOYALTY_PREFETCH", "50", "LOYALTY_BATCH", "1")
		lab.Poll(t, awaitLimit, "dozens of messages in hand", func() (bool, error) {
			ready := lab.Ready(t, s.ch, topology.Queue)
			return published-lab.One[int64](t, s.db, countAwards)-int64(ready) > 24, nil
		})
		if err := r.Stop(); err != nil {
			t.Errorf("stop %d: %v", stop+1, err)
		}
	}
	left := int(published - lab.One[int64](t, s.db, countAwards))
	lab.AwaitReady(t, s.ch, topology.Queue, left)
	if n := lab.Ready(t, s.ch, topology.DeadLetterQueue); n != 0 {
		t.Errorf("%d in the DLQ", n)
	}
	assertUncounted(t, s, left)
}
