package main

// Can every invariant fail? Each broken state below breaks the one claim it should, and names the id that offends.

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// healthy is a system at rest: order 1 awarded, order 2 parked, one malformed event parked, and one that stands for no
// order given up. The events of both orders are of one aggregate, and the second was first sent when nobody could get it.
func healthy() counts {
	return counts{
		accepted: []int64{1, 2},
		orders:   map[int64]int{1: 120, 2: 45},
		events:   map[string]int64{"e1": 1, "e2": 2, "bad": 0, "large": 0},
		ledger:   []award{{Order: 1, Points: 120}},
		rows:     map[string]row{"e1": {1, "order 1"}, "e2": {2, "order 1"}, "bad": {3, "order 9"}, "large": {4, "order 8"}},
		givenUp:  map[string]bool{"large": true},
		inbox:    map[string]bool{"e1": true},
		published: []publication{
			{id: "e2"}, {id: "e1", routed: true}, {id: "e2", routed: true}, {id: "e1", routed: true}, {id: "bad", routed: true},
		},
		dead: []deadLetter{{id: "e2", orderID: 2, reason: "delivery_limit"}, {id: "bad", reason: "rejected"}},
	}
}

func TestInvariantsHold(t *testing.T) {
	for _, j := range invariants(healthy()) {
		if !j.holds() {
			t.Errorf("%s: ✘ %v in a healthy system", j.claim, j.offenders)
		}
	}
}

// An order may be both awarded and parked: its second copy died.
func TestAwardedAndParkedIsAllowed(t *testing.T) {
	c := healthy()
	c.dead = append(c.dead, deadLetter{id: "e1", orderID: 1})
	for _, j := range invariants(c) {
		if !j.holds() {
			t.Errorf("%s: ✘ %v", j.claim, j.offenders)
		}
	}
}

// After a restore the id 1 stands for another order, worth 70, whose event is parked. The award of the first one stays.
func TestAnIdUsedTwiceIsAllowedWhereTheSecondOrderIsParked(t *testing.T) {
	restored := func() counts {
		c := healthy()
		c.orders[1], c.events["e1again"] = 70, 1
		c.published[1].body = []byte(`{"orderId":1,"customerId":101,"totalKzt":12050}`)
		return c
	}
	parked := restored()
	parked.dead = append(parked.dead, deadLetter{id: "e1again", orderID: 1, reason: "rejected"})
	for _, j := range invariants(parked) {
		if !j.holds() {
			t.Errorf("%s: ✘ %v", j.claim, j.offenders)
		}
	}
	swallowed := restored()
	swallowed.inbox["e1again"] = true
	parked.ledger[0].Points = 70
	for _, c := range []counts{swallowed, parked} {
		if c.pointsAreRight().holds() {
			t.Errorf("%+v", c)
		}
	}
}

func TestInvariantsFail(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(*counts)
		want   map[string]string // claim → offender
	}{
		"an accepted order vanished": {
			func(c *counts) { c.accepted = append(c.accepted, 3) },
			map[string]string{"every order answered 201 exists": "order 3"},
		},
		"an order without event": {
			func(c *counts) { c.orders[3] = 10 },
			map[string]string{"orders = ledger ∪ DLQ": "order 3"},
		},
		"an award for no order": {
			func(c *counts) {
				c.ledger = append(c.ledger, award{Order: 9, Points: 1})
				c.events["e9"], c.inbox["e9"] = 9, true
			},
			map[string]string{"orders = ledger ∪ DLQ": "ledger row without order 9"},
		},
		"awarded twice": {
			func(c *counts) { c.ledger = append(c.ledger, c.ledger[0]) },
			map[string]string{"no order twice in the ledger": "2 times order 1"},
		},
		"wrong points": {
			func(c *counts) { c.ledger[0].Points = 121 },
			map[string]string{"each award is one point per 100 KZT": "121 points instead of 120 for order 1"},
		},
		"award without inbox row": {
			func(c *counts) { delete(c.inbox, "e1") },
			map[string]string{
				"inbox rows = distinct messages handled": "awarded without inbox row: event e1",
				"every event is handled or parked":       "event e1",
			},
		},
		"inbox row without award": {
			func(c *counts) { c.inbox["e2"] = true },
			map[string]string{"inbox rows = distinct messages handled": "inbox row without award: event e2"},
		},
		"a message lost": {
			func(c *counts) { c.dead = c.dead[:1] },
			map[string]string{"every event is handled or parked": "event bad"},
		},
		"an order given up": {
			func(c *counts) { c.dead, c.givenUp["e2"] = c.dead[1:], true },
			map[string]string{"orders = ledger ∪ DLQ": "order 2"},
		},
		"out of order": {
			func(c *counts) { c.published = c.published[2:] },
			map[string]string{"events of one aggregate leave in order": "order 1: row 1 after row 2"},
		},
		"still in the outbox": {
			func(c *counts) { c.pending = []string{"e2"} },
			map[string]string{"outbox pending = 0": "event e2"},
		},
		"still in the queue": {
			func(c *counts) { c.ready = 4 },
			map[string]string{"nothing is left in the queue": "messages: 4"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			state := healthy()
			c.breaks(&state)
			broken := map[string]string{}
			for _, j := range invariants(state) {
				if !j.holds() {
					broken[j.claim] = strings.Join(j.offenders, ", ")
				}
			}
			if !maps.Equal(broken, c.want) {
				t.Errorf("broken: %v, want %v", broken, c.want)
			}
		})
	}
}

func TestTrafficCounts(t *testing.T) {
	c := counts{
		published: []publication{{id: "a", connection: "x"}, {id: "b", connection: "x"}, {id: "a", connection: "y"}},
		delivered: []delivery{{id: "a", failures: 1}, {id: "b", redelivered: true, failures: 2}},
		events:    map[string]int64{"a": 1, "b": 2},
	}
	got := []int{c.distinctPublished(), c.republished(), c.redeliveries(), c.failures(), c.fewest(), c.neighbourFailures("2")}
	if want := []int{2, 1, 1, 2, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("distinct, republished, redeliveries, failures, fewest, neighbours' failures = %v, want %v", got, want)
	}
}
