package main

import (
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
	full := &Claim{ids: []int64{1}, Events: one, full: true}
	some := &Claim{ids: []int64{1}, Events: one}
	none := &Claim{}
	behind := &Claim{ids: []int64{1}, heldUp: []aggregate{{"order", "1"}}, full: true}
	for _, c := range []struct {
		name  string
		form  string
		held  *Claim
		again string // the form in which to look again, "" = not
		next  string
	}{
		{"a full batch", selectReady, full, "", selectUntouched},
		{"a part of one", selectReady, some, "", selectReady},
		{"nothing", selectReady, none, "", selectReady},
		{"held up", selectReady, behind, selectUnblocked, selectUnblocked},
		{"nothing untouched", selectUntouched, none, selectReady, selectReady},
		{"held up, untouched", selectUntouched, behind, selectUnblocked, selectUnblocked},
		{"locked", selectUnblocked, behind, selectUnblocked, selectUnblocked},
	} {
		t.Run(c.name, func(t *testing.T) {
			var caution caution
			again, is := caution.learn(form{sql: c.form}, c.held)
			if is != (c.again != "") || is && again.sql != c.again {
				t.Errorf("looks again = %v with %s", is, again.sql)
			}
			next := caution.form()
			if next.sql != c.next {
				t.Errorf("next: %s", next.sql)
			}
			if c.name == "locked" && len(next.more[0].([]string)) != 1 {
				t.Error("an aggregate found locked is not left alone")
			}
		})
	}
}
