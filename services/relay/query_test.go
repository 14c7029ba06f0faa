package main

import (
	"reflect"
	"testing"

	"example.com/outboxlab/scripts/lab"
)

// What a claim has met decides which query the next one begins with.
func TestTheQueryOfTheNextClaim(t *testing.T) {
	one := []Event{{ID: 1}}
	x, y := []aggregate{{"order", "1"}}, []aggregate{{"order", "2"}}
	ready := lockQuery{sql: selectReady}
	for _, c := range []struct {
		name  string
		query lockQuery
		met   Claim
		again *lockQuery // to be tried now, nil = none
		next  string
	}{
		{"a batch", ready, Claim{Events: one}, nil, selectReady},
		{"nothing", ready, Claim{}, nil, selectReady},
		{"some are blocked", ready, Claim{Events: one, blocked: x}, nil, selectUnblocked},
		{"all are blocked", ready, Claim{blocked: x}, unblocked(nil, nil), selectUnblocked},
		{"by a lock", *unblocked([]string{"order"}, []string{"1"}), Claim{blocked: y}, unblocked([]string{"order", "order"}, []string{"1", "2"}), selectUnblocked},
	} {
		t.Run(c.name, func(t *testing.T) {
			var choice queryChoice
			if again := choice.next(c.query, &c.met); !reflect.DeepEqual(again, c.again) {
				t.Errorf("again %v, want %v", again, c.again)
			}
			if first := choice.first(); first.sql != c.next {
				t.Errorf("next: %s", first.sql)
			}
		})
	}
}

// A session's probe takes one row. It finds one behind however many aggregates whose first row somebody
// has locked; and when the lock goes, so do they.
func TestAProbeFindsItsWayPastLockedHeads(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	const heads = wideTry + 500
	lab.Exec(t, db, insertRun, 2, heads)
	locker := begin(t, db)
	if _, err := locker.Exec(t.Context(), `SELECT FROM orders.outbox WHERE id <= $1 FOR UPDATE`, heads); err != nil {
		t.Fatal(err)
	}
	lab.Exec(t, db, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('customer', '1', 'order.placed', '{}')`)
	for _, mode := range []string{"tx", "lease"} {
		r := newTestRelay(t, l, settings{claim: mode})
		held, err := r.claimer.Claim(t.Context(), 1, false)
		if err != nil || len(held.Events) != 1 || held.Events[0].AggregateType != "customer" {
			t.Fatalf("%s: %+v, %v", mode, held.Events, err)
		}
		if _, err := held.Settle(t.Context(), r.pool, []error{errUnknown}, 1); err != nil { // gives it back
			t.Fatal(err)
		}
	}
	runRelay(t, newTestRelay(t, l, settings{claim: "tx", batch: 1000}))
	lab.AwaitOne(t, db, 2*heads, countPending)
	if err := locker.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	lab.AwaitOne(t, db, 0, countPending)
}
