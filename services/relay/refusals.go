package main

import (
	"sync"
	"time"
)

// Here the relay remembers which rows the database has refused to read or to write, so that none of
// them stops the others, and none is sent to the broker again and again because it cannot be marked.

const (
	// rehearseFor is how long, after a refusal, claims try whether their rows can be marked before anything is sent.
	// It is longer than a failed event ever waits for its next try.
	rehearseFor = 2 * maxRetry
	// rehearseRows is how many rows such a claim looks at, at least: what is refused of one row alone says
	// little, what is refused of one among many says that this one is to blame.
	rehearseRows = 100
	// maxPassOver bounds how long a row to which nothing can be written is passed over before it is tried again.
	maxPassOver = time.Minute
	// maxRemembered bounds how many rows are remembered.
	maxRemembered = 10_000
)

// refusals is that memory, of one process. The zero value remembers nothing.
type refusals struct {
	mu       sync.Mutex
	round    int       // how often a batch was refused
	until    time.Time // claims rehearse until then
	lastGood time.Time // when the database last accepted a change of some row
	rows     map[int64]*refusal
	unsaid   []report
}

// refusal is what is remembered of a row.
type refusal struct {
	first     time.Time // when it was refused for the first time
	proven    bool      // it is to blame for that, and says nothing of other rows
	tries     int       // how often nothing could be written to it
	passUntil time.Time // claims leave it alone until then
}

// report is what is to be said about rows that were refused.
type report struct {
	step   string
	ids    []int64
	cause  error
	passed bool // nothing could be written to them; otherwise an attempt was counted
	isNew  bool // passed over for the first time
}

// doubtful tells whether claims should rehearse.
func (r *refusals) doubtful() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.until)
}

// doubt makes claims rehearse from now on.
func (r *refusals) doubt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = time.Now().Add(rehearseFor)
	r.round++
}

// now is the round, to find out later whether something was refused meanwhile.
func (r *refusals) now() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.round
}

// accepted is told of each settle that has marked rows.
func (r *refusals) accepted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastGood = time.Now()
}

// judge says which of the rows refused are to blame themselves: those that have failed before, and those
// refused while others were accepted, now (good) or since they were refused for the first time. A row
// that is refused alone is to blame too, since nothing speaks against it. Several that are refused while none is accepted
// are not, as far as anybody can tell: that is a trigger, a permission, a constraint that concerns all rows,
// and if it counted as attempts, it would be the end of every event in the outbox.
func (r *refusals) judge(good bool, rows []heldRow) (toBlame, unclear []heldRow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if good {
		r.lastGood = now
	}
	for _, row := range rows {
		known := r.remember(row.id, now)
		if good || row.attempts > 0 || known.first.Before(r.lastGood) {
			known.proven = true
			toBlame = append(toBlame, row)
		} else {
			unclear = append(unclear, row)
		}
	}
	suspects := 0
	for _, known := range r.rows {
		if !known.proven && !known.first.Before(r.lastGood) {
			suspects++
		}
	}
	if suspects < 2 {
		return append(toBlame, unclear...), nil
	}
	return toBlame, unclear
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

// passOver makes claims leave rows alone for a while, longer each time.
func (r *refusals) passOver(ids []int64) (isNew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, id := range ids {
		known := r.remember(id, now)
		isNew = isNew || known.tries == 0
		known.tries++
		known.passUntil = now.Add(min(maxPassOver, time.Second<<min(known.tries, 6)))
	}
	return isNew
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

// report leaves something to be said.
func (r *refusals) report(what report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsaid = append(r.unsaid, what)
}

// takeReports hands out what has not been said yet.
func (r *refusals) takeReports() []report {
	r.mu.Lock()
	defer r.mu.Unlock()
	reports := r.unsaid
	r.unsaid = nil
	return reports
}
