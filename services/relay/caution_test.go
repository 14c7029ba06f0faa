package main

import (
	"reflect"
	"testing"
	"time"

	"example.com/outboxlab/scripts/lab"
)

// Rows that somebody has locked and given back, a relay that died for instance, look locked to a hasty
// claim. If there is nothing else it takes them at once.
func TestAHastyClaimDoesNotForgetWhatWasLockedOnce(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	lab.Exec(t, db, insertEvents, 50)
	dead := begin(t, db)
	if _, err := dead.Exec(t.Context(), `SELECT FROM orders.outbox FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	r := newTestRelay(t, l, settings{claim: "tx", batch: 100})
	r.claimer.caution.hasty = time.Now().Add(time.Hour)
	claim := func(want int) {
		t.Helper()
		held, err := r.claimer.Claim(t.Context(), 100)
		if err != nil || len(held.Events) != want {
			t.Fatalf("%d events, %v; want %d", len(held.Events), err, want)
		}
		if _, err := held.Settle(t.Context(), r.pool, make([]error, want), 1); err != nil {
			t.Fatal(err)
		}
	}
	claim(0)
	if err := dead.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.claimer.caution.hasty = time.Now().Add(time.Hour)
	claim(50)
}

// What claims have met decides what the next one asks.
func TestTheFormOfTheNextClaim(t *testing.T) {
	one := []Event{{ID: 1}}
	x, y := []aggregate{{"order", "1"}}, []aggregate{{"order", "2"}}
	for _, c := range []struct {
		name  string
		hasty bool // before
		form  form
		held  Claim
		again *form // the form in which to try again, nil = not
		next  string
	}{
		{"a full batch", false, form{sql: selectReady}, Claim{Events: one, full: true}, nil, selectUntouched},
		{"a full batch, locked before", true, form{sql: selectReady}, Claim{Events: one, full: true, touched: true}, nil, selectReady},
		{"a part of one", true, form{sql: selectUntouched}, Claim{Events: one}, nil, selectReady},
		{"another full one", true, form{sql: selectUntouched}, Claim{Events: one, full: true}, nil, selectUntouched},
		{"nothing", false, form{sql: selectReady}, Claim{}, nil, selectReady},
		{"nothing untouched", true, form{sql: selectUntouched}, Claim{}, &form{sql: selectReady}, selectReady},
		{"some held up", false, form{sql: selectReady}, Claim{Events: one, heldUp: x}, nil, selectUnblocked},
		{"held up", false, form{sql: selectReady}, Claim{heldUp: x}, unblocked(nil, nil), selectUnblocked},
		{"held up, untouched", true, form{sql: selectUntouched}, Claim{heldUp: x, full: true}, unblocked(nil, nil), selectUnblocked},
		{"locked", false, *unblocked([]string{"order"}, []string{"1"}), Claim{heldUp: y}, unblocked([]string{"order", "order"}, []string{"1", "2"}), selectUnblocked},
	} {
		t.Run(c.name, func(t *testing.T) {
			var caution caution
			if c.hasty {
				caution.hasty = time.Now().Add(time.Hour)
			}
			if again := caution.learn(c.form, &c.held); !reflect.DeepEqual(again, c.again) {
				t.Errorf("again %v, want %v", again, c.again)
			}
			if next := caution.begin(); next.sql != c.next {
				t.Errorf("next: %s", next.sql)
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
		held, err := r.claimer.Claim(t.Context(), 1)
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
