// Package crash answers: where can a process die so that two systems disagree? It holds the single
// list of those places, and is the only code besides the mains that ends a process.
//
// A crash flag is for workshops and tests: CRASH_AT=relay.after-publish ends the relay at that
// point as kill -9 would, without deferred calls, with exit code 1. Unset, At returns after one
// comparison. The code that has a point in it does not know whether one is armed.
package crash

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
)

// Point names a window in which two systems can disagree. docs/guarantees.md tells for each what
// is left behind and what heals it.
type Point string

// The points, in the order in which an order passes them.
const (
	OrdersBeforeCommit  Point = "orders.before-commit"  // order and event written, not committed
	OrdersAfterCommit   Point = "orders.after-commit"   // committed, the client has no reply yet
	RelayAfterClaim     Point = "relay.after-claim"     // rows locked, nothing published
	RelayMidBatch       Point = "relay.mid-batch"       // events sent, confirms not awaited; hit once for each event
	RelayAfterPublish   Point = "relay.after-publish"   // the broker has confirmed, the rows are not marked
	RelayAfterMark      Point = "relay.after-mark"      // the rows are marked and committed
	LoyaltyBeforeCommit Point = "loyalty.before-commit" // ledger and inbox rows written, not committed
	LoyaltyBeforeAck    Point = "loyalty.before-ack"    // committed, the broker does not know yet
	LoyaltyAfterAck     Point = "loyalty.after-ack"     // the acknowledgement has been sent

	LoyaltyRedriveAfterPublish Point = "loyalty.redrive-after-publish" // back in its queue, not yet out of the dead-letter queue
)

// Points lists every point.
var Points = []Point{
	OrdersBeforeCommit, OrdersAfterCommit,
	RelayAfterClaim, RelayMidBatch, RelayAfterPublish, RelayAfterMark,
	LoyaltyBeforeCommit, LoyaltyBeforeAck, LoyaltyAfterAck,
	LoyaltyRedriveAfterPublish,
}

// armed is nil in production: At then costs one atomic load.
var armed atomic.Pointer[arming]

type arming struct {
	plan    Plan
	hits    atomic.Int64
	say     func(string)
	release chan os.Signal // what ends a hold
}

// Arm makes the process die, or hold, according to plan; say gets the line printed before, and after
// a hold. An empty plan arms nothing.
func Arm(plan Plan, say func(string)) {
	if plan.Point != "" {
		armed.Store(arm(plan, say))
	}
}

// arm listens for the release from the start. A signal that comes before the hold, or after it, then
// does nothing, instead of ending the process.
func arm(plan Plan, say func(string)) *arming {
	a := &arming{plan: plan, say: say, release: make(chan os.Signal, 1)}
	if plan.Hold && len(releaseSignals) > 0 { // without a signal to name, Notify would take them all
		signal.Notify(a.release, releaseSignals...)
	}
	return a
}

// At is the point itself. orders are the ids of the orders that are at it: one, or a whole batch.
// A point that no order has come to is not hit.
func At(point Point, orders ...string) {
	if a := armed.Load(); a != nil && a.plan.Point == point {
		a.hit(orders)
	}
}

func (a *arming) hit(orders []string) {
	if len(orders) == 0 || a.plan.Order != "" && !slices.Contains(orders, a.plan.Order) {
		return
	}
	if a.hits.Add(1) != a.plan.Hit {
		return
	}
	if a.plan.Hold {
		a.hold()
		return
	}
	a.say(fmt.Sprintf("crash at %s, on purpose", a.plan.Point))
	os.Exit(1)
}

// hold stands still until it is released. Only the goroutine at the point does: connections live on,
// and so does everything else in the process.
func (a *arming) hold() {
	select {
	case <-a.release: // came too early, and meant nothing
	default:
	}
	a.say(fmt.Sprintf("holding at %s", a.plan.Point))
	<-a.release
	a.say(fmt.Sprintf("released at %s", a.plan.Point))
}
