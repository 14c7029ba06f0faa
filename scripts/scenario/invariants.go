// What must be true after every story, whatever died in it? The promise "an accepted order is awarded exactly once;
// what cannot be processed is parked and never lost", as checks over the final counts. Each names the ids that offend.
package main

import (
	"fmt"
	"slices"
	"sort"
)

// judgement is one line of a verdict.
type judgement struct {
	claim     string
	found     string   // what was counted
	offenders []string // ids for which the claim is false; none = it holds
}

func (j judgement) holds() bool { return len(j.offenders) == 0 }

// invariants judges the counts of a system at rest.
func invariants(c counts) []judgement {
	return []judgement{
		c.everyAcceptedOrderExists(),
		c.everyOrderAwardedOrParked(),
		c.noOrderTwice(),
		c.pointsAreRight(),
		c.inboxIsWhatWasHandled(),
		c.everyEventHandledOrParked(),
		c.eachAggregateInOrder(),
		c.nothingPending(),
		c.nothingLeftInTheQueue(),
	}
}

// A customer who was told 201 has an order. (An order whose reply was lost may exist as well; that is no fault.)
func (c counts) everyAcceptedOrderExists() judgement {
	j := judgement{claim: "every order answered 201 exists", found: fmt.Sprintf("%d accepted, %d orders", len(c.accepted), len(c.orders))}
	for _, id := range c.accepted {
		if _, ok := c.orders[id]; !ok {
			j.offend("order", id)
		}
	}
	return j
}

// orders = ledger ∪ DLQ, by order. An order in both was awarded, and a second copy of its event was parked: counted, and allowed.
func (c counts) everyOrderAwardedOrParked() judgement {
	awarded, parked := map[int64]bool{}, map[int64]bool{}
	for _, a := range c.ledger {
		awarded[a.Order] = true
	}
	for _, l := range c.dead {
		if l.orderID != 0 {
			parked[l.orderID] = true
		}
	}
	j := judgement{claim: "orders = ledger ∪ DLQ", found: fmt.Sprintf("%d = %d ∪ %d", len(c.orders), len(awarded), len(parked))}
	for _, id := range sortedKeys(c.orders) {
		if !awarded[id] && !parked[id] {
			j.offend("order", id)
		}
	}
	for _, id := range sortedKeys(awarded) {
		if _, ok := c.orders[id]; !ok {
			j.offend("ledger row without order", id)
		}
	}
	return j
}

func (c counts) noOrderTwice() judgement {
	rows := map[int64]int{}
	for _, a := range c.ledger {
		rows[a.Order]++
	}
	j := judgement{claim: "no order twice in the ledger", found: fmt.Sprintf("%d rows, %d orders", len(c.ledger), len(rows))}
	for _, id := range sortedKeys(rows) {
		if rows[id] > 1 {
			j.offend(fmt.Sprintf("%d times order", rows[id]), id)
		}
	}
	return j
}

// One point per 100 KZT, floor. Where an id stands for two orders, the award is for the one whose event was handled.
func (c counts) pointsAreRight() judgement {
	j := judgement{claim: "each award is one point per 100 KZT", found: fmt.Sprintf("%d points", c.points())}
	reused := c.reused()
	for _, a := range c.ledger {
		worth, ok := c.orders[a.Order]
		if reused[a.Order] {
			worth = c.handledWorth(a.Order)
		}
		if ok && worth != a.Points {
			j.offend(fmt.Sprintf("%d points instead of %d for order", a.Points, worth), a.Order)
		}
	}
	return j
}

// Inbox rows = distinct messages handled. "Handled" is read from the effect and not from the inbox itself: the events
// whose order has a ledger row. So an award that left no inbox row offends (a redelivery could award again), and so
// does an inbox row without its award (the message was swallowed).
func (c counts) inboxIsWhatWasHandled() judgement {
	awarded := map[int64]bool{}
	for _, a := range c.ledger {
		awarded[a.Order] = true
	}
	handled := 0
	j := judgement{claim: "inbox rows = distinct messages handled"}
	reused, dead := c.reused(), c.deadEvents()
	for _, id := range sortedKeys(c.events) {
		if dead[id] && !c.inbox[id] && reused[c.events[id]] {
			continue // the other order of that id, parked and not handled
		}
		switch done := c.events[id] != 0 && awarded[c.events[id]]; {
		case done && !c.inbox[id]:
			j.offend("awarded without inbox row: event", id)
		case !done && c.inbox[id]:
			j.offend("inbox row without award: event", id)
		}
		if c.events[id] != 0 && awarded[c.events[id]] {
			handled++
		}
	}
	for _, id := range sortedKeys(c.inbox) {
		if _, ok := c.events[id]; !ok {
			j.offend("inbox row of an unknown event", id)
		}
	}
	j.found = fmt.Sprintf("%d = %d", len(c.inbox), handled)
	return j
}

// reused are the ids that stand for two orders, as after a restore of the orders database: one event of that
// order was handled, and another one was refused for good.
func (c counts) reused() map[int64]bool {
	handled, refused := map[int64]bool{}, map[int64]bool{}
	for id, order := range c.events {
		handled[order] = handled[order] || c.inbox[id]
	}
	for _, l := range c.dead {
		if l.orderID != 0 && l.reason == "rejected" && !c.inbox[l.id] && handled[l.orderID] {
			refused[l.orderID] = true
		}
	}
	return refused
}

// handledWorth is how many points the order is worth by the body of its event that was handled; -1 if nobody saw that.
func (c counts) handledWorth(order int64) int {
	for _, p := range c.published {
		if c.events[p.id] == order && c.inbox[p.id] {
			return worthOf(p.body)
		}
	}
	return -1
}

func (c counts) deadEvents() map[string]bool {
	dead := map[string]bool{}
	for _, l := range c.dead {
		dead[l.id] = true
	}
	return dead
}

// Also events that stand for no order, such as a malformed one, must end somewhere.
func (c counts) everyEventHandledOrParked() judgement {
	j := judgement{claim: "every event is handled or parked", found: fmt.Sprintf("%d events", len(c.events))}
	lost := c.unhandled()
	sort.Strings(lost)
	for _, id := range lost {
		j.offend("event", id)
	}
	return j
}

// Events of one aggregate leave in the order of their outbox ids. What counts is each event's first appearance in a queue:
// after a crash 1 2 1 2 is fine, 2 1 is not, and one that was returned did not appear. The one documented exception is an
// event that was given up and requeued by a person.
func (c counts) eachAggregateInOrder() judgement {
	highest, seen := map[string]int64{}, map[string]bool{}
	j := judgement{claim: "events of one aggregate leave in order"}
	for _, p := range c.published {
		r, known := c.rows[p.id]
		if seen[p.id] || !known || !p.routed {
			continue
		}
		seen[p.id] = true
		if last := highest[r.aggregate]; r.id < last {
			j.offend(fmt.Sprintf("%s: row %d after row", r.aggregate, r.id), last)
		} else {
			highest[r.aggregate] = r.id
		}
	}
	j.found = fmt.Sprintf("%d events, %d aggregates", len(seen), len(highest))
	return j
}

func (c counts) nothingPending() judgement {
	j := judgement{claim: "outbox pending = 0", found: fmt.Sprint(len(c.pending))}
	for _, id := range c.pending {
		j.offend("event", id)
	}
	return j
}

// Asked after every service has stopped and given back what it held.
func (c counts) nothingLeftInTheQueue() judgement {
	j := judgement{claim: "nothing is left in the queue", found: fmt.Sprint(c.ready)}
	if c.ready > 0 {
		j.offend("messages:", c.ready)
	}
	return j
}

func (j *judgement) offend(what string, id any) {
	j.offenders = append(j.offenders, fmt.Sprintf("%s %v", what, id))
}

func sortedKeys[K int64 | string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
