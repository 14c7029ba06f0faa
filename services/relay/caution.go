package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// This file answers: with which statement does a claim lock ready rows? selectUnblocked, the careful
// one, asks of every row whether something holds it up, which costs more than all the rest.
// selectUntouched, the hasty one, passes over whatever has the mark of a lock, which is the cheapest way
// past the rows of other relays. What they find and should not have, the claim's second step drops; what
// they should have found and have not, another claim finds, soon.

const (
	// carefulFor is how long claims are careful after a row that was held up has been met.
	carefulFor = 10 * time.Second
	// hastyFor is how long claims are hasty after a full batch in which no row had been locked before.
	// It bounds how long a row that a dead relay had locked is passed over.
	hastyFor = 200 * time.Millisecond
)

// caution remembers what the last claims have met. The zero value has met nothing.
type caution struct {
	mu      sync.Mutex
	careful time.Time // claims are careful until then;
	hasty   time.Time // if they are not, they are hasty until then
}

// form is one of these statements, with what it asks for besides limit and floor.
type form struct {
	sql  string
	more []any
}

// without leaves these rows out. What is behind one of them in its aggregate is not published all the same:
// to the second step they are pending.
func (f form) without(ids []int64) form {
	if len(ids) == 0 {
		return f
	}
	leaveOut := fmt.Sprintf(" AND o.id <> ALL($%d)", 3+len(f.more)) // behind limit and floor
	return form{strings.Replace(f.sql, oPending, oPending+leaveOut, 1), append(slices.Clone(f.more), ids)}
}

// unblocked is the careful one. It leaves out these aggregates, given column by column for SQL.
func unblocked(kinds, ids []string) *form { return &form{selectUnblocked, []any{kinds, ids}} }

// begin is the form to begin a claim with.
func (c *caution) begin() *form {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch now := time.Now(); {
	case now.Before(c.careful):
		return unblocked(nil, nil)
	case now.Before(c.hasty):
		return &form{sql: selectUntouched}
	default:
		return &form{sql: selectReady}
	}
}

// learn remembers what a try with f has met. If that has brought nothing to send, and another form might,
// it returns the form, otherwise nil.
func (c *caution) learn(f form, held *Claim) *form {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if len(held.heldUp) > 0 {
		c.careful = now.Add(carefulFor)
	}
	switch {
	case !held.full || held.touched:
		c.hasty = time.Time{}
	case f.sql == selectReady:
		c.hasty = now.Add(hastyFor)
	}
	switch {
	case len(held.Events) > 0:
		return nil
	case len(held.heldUp) > 0 && f.sql == selectUnblocked: // by a lock, probably: leave these alone, this time
		kinds, ids := f.more[0].([]string), f.more[1].([]string)
		for _, a := range held.heldUp {
			kinds, ids = append(kinds, a.kind), append(ids, a.id)
		}
		return unblocked(kinds, ids)
	case len(held.heldUp) > 0:
		return unblocked(nil, nil)
	case f.sql == selectUntouched:
		return &form{sql: selectReady}
	}
	return nil
}
