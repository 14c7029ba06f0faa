package main

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"example.com/outboxlab/pkg/postgres"
)

// The relay remembers which rows the database has refused to read or to write, so that none of them
// stops the others, and none is published again and again because it cannot be marked.

const (
	// rehearseFor is how long, after a refusal, claims try whether their rows can be marked before anything is sent.
	// It is longer than a failed event ever waits for its next try.
	rehearseFor = 2 * maxRetry
	// rehearseRows is how many rows such a claim looks at, at least, so that many that are refused are found together.
	rehearseRows = 100
	// maxPassOver bounds how long a row is passed over before it is tried again.
	maxPassOver = time.Minute
	// freePasses is how often a row is passed over for an error that may be the server's until it counts as failed:
	// in about a quarter of a minute in which the server accepted other rows.
	freePasses = 3
	// maxRemembered bounds how many rows are remembered.
	maxRemembered = 10_000
)

// refusals is that memory, of one process. The zero value remembers nothing.
type refusals struct {
	mu       sync.Mutex
	until    time.Time // claims rehearse until then
	lastGood time.Time // when the database last accepted a change of some row
	rows     map[int64]*refusal
	unsaid   []refusedRows
}

// refusal is what is remembered of a row.
type refusal struct {
	first     time.Time // when it was refused for the first time
	proven    bool      // it was refused while others were accepted
	passes    int       // how often it was passed over
	passUntil time.Time // claims leave it alone until then
}

// blamed are rows that are refused because of what they are: either an attempt counts, or they are passed over.
type blamed struct{ failed, passed []int64 }

// refusedRows is what is to be said about rows that were refused.
type refusedRows struct {
	step   string
	ids    []int64
	cause  error
	passed bool // they are passed over; otherwise an attempt was counted
	isNew  bool // passed over for the first time
}

// recent tells whether claims should rehearse, because rows were refused lately.
func (r *refusals) recent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.until)
}

// met makes claims rehearse from now on.
func (r *refusals) met() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = time.Now().Add(rehearseFor)
}

// accepted is called after each settle that has marked rows.
func (r *refusals) accepted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastGood = time.Now()
}

// comparison says how the database treats other rows than those refused.
type comparison int

const (
	someAccepted comparison = iota
	allRefused
	noOthers // there are none to compare with
)

// judge decides about rows that were refused. If others were accepted, these are to blame, and an attempt counts; but for
// an error that may be the server's (postgres.BlameFor) it counts only after the row was passed over some times: a full disk
// refuses some rows and not others. Rows that there was no time to try one by one are passed over as well.
//
// If no other is accepted, the cause may be a trigger, a permission or a constraint that concerns all rows. If that
// counted as attempts, it would be the end of every event in the outbox: judge returns an error, and the session ends. A row
// that is pending alone is to blame if its error is its own: nothing speaks against it, unless another one was refused
// before and none has been accepted since. So is one that was found to blame before, by comparison.
func (r *refusals) judge(step string, others comparison, found *bisection) (b blamed, err error) {
	if found.lastWhy == nil {
		return b, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if others == someAccepted {
		r.lastGood = now
	}
	ids := found.refusedIDs()
	proven := len(found.untried) == 0 // now or before
	rowsOwn := proven                 // as the errors say
	for _, id := range ids {
		known := r.remember(id, now)
		known.proven = known.proven || others == someAccepted
		proven = proven && known.proven
		rowsOwn = rowsOwn && postgres.BlameFor(found.refused[id]) == postgres.Statement
	}
	aloneToBlame := others == noOthers && rowsOwn && r.unproven() <= 1
	if others != someAccepted && !proven && !aloneToBlame {
		return b, fmt.Errorf("not one of several rows can be used: row %d %s: %w", slices.Min(append(found.untried, ids...)), cannot[step], found.lastWhy)
	}
	for _, id := range ids {
		if postgres.BlameFor(found.refused[id]) == postgres.Statement || r.rows[id].passes >= freePasses {
			b.failed = append(b.failed, id)
		} else {
			b.passed = append(b.passed, id)
		}
	}
	if len(found.accepted) == 0 {
		b.passed = append(b.passed, found.untried...)
	}
	return b, nil
}

// unproven counts the rows that were refused without comparison since some row was last accepted.
func (r *refusals) unproven() (n int) {
	for _, known := range r.rows {
		if !known.proven && !known.first.Before(r.lastGood) {
			n++
		}
	}
	return n
}

// remember returns what is known of a row that was refused now.
func (r *refusals) remember(id int64, now time.Time) *refusal {
	r.until = now.Add(rehearseFor)
	if r.rows == nil {
		r.rows = map[int64]*refusal{}
	}
	known := r.rows[id]
	if known == nil {
		for other := range r.rows {
			if len(r.rows) < maxRemembered {
				break
			}
			delete(r.rows, other)
		}
		known = &refusal{first: now}
		r.rows[id] = known
	}
	return known
}

// note remembers and reports what was done about rows that are to blame for a step, and what could not be written about them.
func (r *refusals) note(step string, b blamed, found *bisection, w writtenEach) {
	r.passOver(stepAttempt, slices.Sorted(maps.Keys(w.not)), w.why)
	r.passOver(step, b.passed, found.lastWhy)
	if counted := without(b.failed, w.not); len(counted) > 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.unsaid = append(r.unsaid, refusedRows{step: step, ids: counted, cause: found.refused[counted[0]]})
	}
}

// passOver makes claims leave rows alone for a while, longer each time.
func (r *refusals) passOver(step string, ids []int64, why error) {
	if len(ids) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	isNew := false
	for _, id := range ids {
		known := r.remember(id, now)
		isNew = isNew || known.passes == 0
		known.passes++
		known.passUntil = now.Add(min(maxPassOver, time.Second<<min(known.passes, 6)))
	}
	r.unsaid = append(r.unsaid, refusedRows{step: step, ids: ids, cause: why, passed: true, isNew: isNew})
}

// passedOver are the rows that claims leave alone now.
func (r *refusals) passedOver() (ids []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for id, known := range r.rows {
		if now.Before(known.passUntil) {
			ids = append(ids, id)
		}
	}
	if ids == nil && now.After(r.until) {
		r.rows = nil
	}
	return ids
}

// takeUnsaid hands out what has not been said yet.
func (r *refusals) takeUnsaid() []refusedRows {
	r.mu.Lock()
	defer r.mu.Unlock()
	unsaid := r.unsaid
	r.unsaid = nil
	return unsaid
}
