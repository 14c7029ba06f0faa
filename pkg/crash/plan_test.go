package crash

import (
	"strings"
	"testing"
)

func TestPlanReadsEveryForm(t *testing.T) {
	for text, want := range map[string]Plan{
		"relay.after-publish":                  {Point: RelayAfterPublish, Hit: 1},
		"relay.mid-batch:3":                    {Point: RelayMidBatch, Hit: 3},
		"loyalty.before-commit@17":             {Point: LoyaltyBeforeCommit, Hit: 1, Order: "17"},
		"loyalty.before-ack:2@17=hold":         {Point: LoyaltyBeforeAck, Hit: 2, Order: "17", Hold: true},
		"orders.before-commit=hold":            {Point: OrdersBeforeCommit, Hit: 1, Hold: true},
		"orders.after-commit@9007199254740993": {Point: OrdersAfterCommit, Hit: 1, Order: "9007199254740993"},
	} {
		var got Plan
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
		if got.String() != text {
			t.Errorf("%s is written as %s", text, got)
		}
	}
}

func TestPlanRefusesWhatItDoesNotKnow(t *testing.T) {
	for text, says := range map[string]string{
		"relay.nowhere":             "orders.before-commit, orders.after-commit, relay.after-claim",
		"":                          "unknown crash point",
		"relay.mid-batch:0":         "hit number",
		"relay.mid-batch:x":         "hit number",
		"relay.mid-batch@x":         "order id",
		"relay.mid-batch=sometimes": "only =hold",
	} {
		var p Plan
		if err := p.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAliasesAndPrecedence(t *testing.T) {
	at := Plan{Point: RelayAfterClaim, Hit: 1}
	for name, c := range map[string]struct {
		flags Flags
		flag  string
		want  Point
	}{
		"nothing":             {},
		"CRASH_AFTER_PUBLISH": {flags: Flags{CrashAfterPublish: true}, want: RelayAfterPublish},
		"CRASH_BEFORE_ACK":    {flags: Flags{CrashBeforeAck: true}, want: LoyaltyBeforeAck},
		"CRASH_AT wins":       {flags: Flags{CrashAt: at, CrashBeforeAck: true}, want: RelayAfterClaim},
		"--crash-at wins":     {flags: Flags{CrashAt: at}, flag: "relay.after-mark", want: RelayAfterMark},
	} {
		if got, err := c.flags.CrashPlan("relay", c.flag); err != nil || got.Point != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := (Flags{}).CrashPlan("relay", "orders.after-commit"); err == nil {
		t.Error("the relay took a flag for a point of orders")
	}
}

func TestAnUnarmedPointDoesNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { At(RelayAfterPublish, "17") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// hit is tested up to the crash itself, which ends the process and is left to the scenarios.
func TestHitCountsOnlyTheOrderMeant(t *testing.T) {
	a := &arming{plan: Plan{Point: RelayMidBatch, Hit: 100, Order: "17"}, say: func(string) {}}
	a.hit([]string{"16"})
	a.hit([]string{"15", "17"})
	a.hit(nil)
	if n := a.hits.Load(); n != 1 {
		t.Errorf("%d hits, want 1", n)
	}
}
