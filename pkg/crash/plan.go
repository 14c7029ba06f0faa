package crash

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// This file answers: what does CRASH_AT say?

// Plan is a crash flag: where, at which hit (from 1), for which order ("" = any), and whether to
// hold there, until SIGUSR1 comes, instead of dying. The zero Plan is no crash.
type Plan struct {
	Point Point
	Hit   int64
	Order string
	Hold  bool
}

// UnmarshalText reads POINT[:n][@ORDER_ID][=hold], e.g. relay.mid-batch:2, or
// loyalty.before-commit@17=hold. An unknown point is an error that lists the known ones: a
// misspelt crash flag must not look like a system that survived.
func (p *Plan) UnmarshalText(text []byte) error {
	rest, mode, hasMode := strings.Cut(string(text), "=")
	rest, order, hasOrder := strings.Cut(rest, "@")
	name, hit, hasHit := strings.Cut(rest, ":")

	plan := Plan{Point: Point(name), Hit: 1}
	if !slices.Contains(Points, plan.Point) {
		return fmt.Errorf("unknown crash point %q; known are %s", name, known())
	}
	if hasHit {
		n, err := strconv.ParseInt(hit, 10, 64)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is not a hit number: want 1 or more, as in %s:2", hit, name)
		}
		plan.Hit = n
	}
	if hasOrder {
		if n, err := strconv.ParseInt(order, 10, 64); err != nil || n < 1 {
			return fmt.Errorf("%q is not an order id, as in %s@17", order, name)
		}
		plan.Order = order
	}
	if hasMode {
		if mode != "hold" {
			return fmt.Errorf("%q is not a way to crash: only =hold is", mode)
		}
		plan.Hold = true
	}
	*p = plan
	return nil
}

// String is the form that UnmarshalText reads.
func (p Plan) String() string {
	s := string(p.Point)
	if p.Hit > 1 {
		s += ":" + strconv.FormatInt(p.Hit, 10)
	}
	if p.Order != "" {
		s += "@" + p.Order
	}
	if p.Hold {
		s += "=hold"
	}
	return s
}

func known() string {
	names := make([]string, len(Points))
	for i, p := range Points {
		names[i] = string(p)
	}
	return strings.Join(names, ", ")
}

// Flags, embedded, are the crash flags of a service's configuration.
type Flags struct {
	// Where to die on purpose: POINT[:n][@ORDER_ID][=hold], e.g. relay.after-publish; =hold stands still there until SIGUSR1. Also --crash-at.
	CrashAt Plan `env:"CRASH_AT"`
	// 1 means CRASH_AT=relay.after-publish.
	CrashAfterPublish bool `env:"CRASH_AFTER_PUBLISH"`
	// 1 means CRASH_AT=loyalty.before-ack.
	CrashBeforeAck bool `env:"CRASH_BEFORE_ACK"`
}

// CrashPlan is what the flags and flag, the text of --crash-at, amount to. --crash-at wins over
// CRASH_AT, and CRASH_AT over its aliases. The variables may name a point of another service, since
// several are often started with the same ones; --crash-at may not.
func (f Flags) CrashPlan(service, flag string) (Plan, error) {
	switch {
	case flag != "":
		var plan Plan
		err := plan.UnmarshalText([]byte(flag))
		if err == nil && !strings.HasPrefix(string(plan.Point), service+".") {
			err = fmt.Errorf("%s does not come to %s", service, plan.Point)
		}
		return plan, err
	case f.CrashAt.Point != "":
		return f.CrashAt, nil
	case f.CrashAfterPublish:
		return Plan{Point: RelayAfterPublish, Hit: 1}, nil
	case f.CrashBeforeAck:
		return Plan{Point: LoyaltyBeforeAck, Hit: 1}, nil
	}
	return Plan{}, nil
}
