package main

import (
	"strings"
	"testing"

	"example.com/outboxlab/scripts/lab"
)

func TestTheRelayWorksWithASmallPool(t *testing.T) {
	t.Parallel()
	for _, size := range []string{"1", "2"} {
		for _, claim := range []string{"tx", "lease"} {
			l := lab.ForTest(t)
			db := l.Owner(t)
			r := lab.Start(t, run, environment(l, "DATABASE_URL", l.RelayURL+"&pool_max_conns="+size, "RELAY_CLAIM", claim, "RELAY_BATCH", "10"))
			for range 5 {
				lab.Exec(t, db, insertEvents, 200)
				lab.AwaitOne(t, db, 0, countPending)
			}
			if strings.Contains(r.Output(), "trying again") {
				t.Errorf("size %s, %s: it met trouble:\n%s", size, claim, r.Output())
			}
			if err := r.Stop(); err != nil {
				t.Error(err)
			}
		}
	}
}
