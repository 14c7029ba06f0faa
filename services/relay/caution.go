package main

import (
	"sync"
	"time"
)

// This file answers: with which statement does a claim lock ready rows? selectUnblocked, the careful
// one, asks of every row whether something holds it up, which costs more than all the rest.
// selectUntouched, the hasty one, passes over whatever anybody has ever locked, which is the cheapest
// way past the rows of other relays. What they find and should not have, the claim's second step drops;
// what they should have found and have not, another claim finds, soon.

const (
	// carefulFor is how long claims are careful after a row that was held up has been met.
	carefulFor = 10 * time.Second
	// hastyFor is how long claims are hasty after a full batch of any rows. It bounds how long rows wait
	// that a dead relay had locked.
	hastyFor = 200 * time.Millisecond
	// lockedFor is how long an aggregate is left alone after one of its rows was found to be locked.
	lockedFor = 200 * time.Millisecond
)

// caution remembers what the last claims have met. The zero value has met nothing.
type caution struct {
	mu      sync.Mutex
	careful time.Time // until then claims are careful,
	hasty   time.Time // and until then, if they are not, hasty

	lockedUntil time.Time // when the aggregates below are forgotten; column by column, for SQL
	kinds, ids  []string
}

// form is one of these statements, with what it asks for besides limit and floor.
type form struct {
	sql  string
	more []any
}

// form is the one to begin a claim with.
func (c *caution) form() form {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch now := time.Now(); {
	case now.Before(c.careful):
		return c.unblocked(now)
	case now.Before(c.hasty):
		return form{sql: selectUntouched}
	default:
		return form{sql: selectReady}
	}
}

func (c *caution) unblocked(now time.Time) form {
	if now.After(c.lockedUntil) {
		c.kinds, c.ids = nil, nil
	}
	return form{selectUnblocked, []any{c.kinds, c.ids}}
}

// learn concludes from a claim made with f what form the next ones take. If this one has brought
// nothing to send and another form might, it returns that.
func (c *caution) learn(f form, held *Claim) (next form, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch {
	case !held.full:
		c.hasty = time.Time{}
	case f.sql == selectReady:
		c.hasty = now.Add(hastyFor)
	}
	if len(held.heldUp) > 0 {
		c.careful = now.Add(carefulFor)
		if f.sql == selectUnblocked { // nothing waits or is leased, so what holds them up is locked
			c.leaveAlone(held.heldUp, now)
		}
		return c.unblocked(now), len(held.Events) == 0
	}
	return form{sql: selectReady}, len(held.ids) == 0 && f.sql == selectUntouched
}

func (c *caution) leaveAlone(locked []aggregate, now time.Time) {
	if now.After(c.lockedUntil) {
		c.kinds, c.ids = nil, nil
		c.lockedUntil = now.Add(lockedFor)
	}
	for _, a := range locked {
		c.kinds, c.ids = append(c.kinds, a.kind), append(c.ids, a.id)
	}
}
