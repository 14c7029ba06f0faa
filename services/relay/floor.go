package main

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// This file answers: why does a claim cost the same after a million events as after ten?
//
// Every published row leaves a dead entry in the index of ready rows, until vacuum removes it; and
// while any session holds an old snapshot, vacuum may not. A claim from the start of the index then
// walks over all of them: 0.8 to 1.0 s after a million. So each relay remembers a floor, an id below
// which there is nothing to claim and never will be, and starts there.
//
// "Never will be" is the difficult part: a transaction that got a low id may commit late. So the
// floor passes id i only when no transaction can be open that might still bring a row below i:
//
//	a look:           highest id handed out = M (the sequence tells, also of rows not committed yet)
//	a second later:   the next transaction to get a number will get X
//	some look later:  all transactions below X have ended (pg_snapshot_xmin >= X)
//
// Whoever got an id up to M did so before the first look, so got a number below X (a row gets its id a
// moment before its transaction gets a number: that is what the second is for). All of those have
// ended, so every row up to M is visible from then on, and the floor may rise to the lowest of them
// that is still ready, or to M+1. X must not be pg_snapshot_xmax, which is one above the highest number
// that has ended: a transaction that is open alone would not be below it.
//
// The floor stops at rows that a peer has locked or leased, since the read takes no locks and sees them
// as ready. Rows that failed are found through an index that has no floor. An old snapshot that only
// reads does not hold the floor up: it has no transaction number.

const (
	// lookEvery bounds how many dead entries gather above the floor while a backlog is drained: about a batch.
	lookEvery = 20 * time.Millisecond
	// apart is how long M is older than X at least. The longer, the longer a writer may stand still between
	// its row's id and its own number, or compute a payload; and the further behind live writers the floor is.
	apart = time.Second
	// fullEvery is the net below the rule: once a minute a claim starts at the bottom.
	fullEvery = time.Minute
)

// look reads, in one snapshot: the lowest ready id from the floor up (NULL if none), the highest id
// handed out, the number below which all transactions have ended, and the next one to be handed out:
// age() counts from that.
const look = `
SELECT (SELECT o.id
        FROM orders.outbox o
        WHERE o.published_at IS NULL AND o.dead_lettered_at IS NULL AND o.retry_at IS NULL AND o.id >= $1
        ORDER BY o.id
        LIMIT 1),
       (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM orders.outbox_id_seq),
       pg_snapshot_xmin(s)::text::bigint,
       pg_snapshot_xmin(s)::text::bigint + age(pg_snapshot_xmin(s)::xid)
FROM pg_current_snapshot() AS s`

// floor is the lowest id at which a claim has to start. The zero value starts at the bottom.
type floor struct {
	mu       sync.Mutex
	id       int64
	lastLook time.Time
	lastFull time.Time

	seen   int64 // M, first step of the rule; 0 = none
	seenAt time.Time
	next   *goal // second step; nil = not taken
	passed int64 // third step: all ids up to here are visible
}

// goal says that ids up to M are visible once all transactions below X have ended.
type goal struct {
	id     int64 // M
	before int64 // X
}

// value is where the next claim starts: the floor, or once a minute the bottom.
func (f *floor) value() (id int64, bottom bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.lastFull) >= fullEvery {
		return 0, true
	}
	return f.id, false
}

// foundAtTheBottom is told of a claim from there that has succeeded, and of the lowest ready id it took
// (0 = none). If that is below the floor, somebody has put a row there by hand, and there may be more
// than a batch of them: the floor goes down to it.
func (f *floor) foundAtTheBottom(lowest int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lastFull = time.Now()
	if lowest > 0 {
		f.id = min(f.id, lowest)
	}
}

// raise takes a look, unless the last one was a moment ago.
func (f *floor) raise(ctx context.Context, pool *pgxpool.Pool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.lastLook) < lookEvery {
		return nil
	}
	f.lastLook = time.Now()
	var lowest *int64
	var highest, ended, next int64
	err := inTransaction(ctx, pool, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, look, f.id).Scan(&lowest, &highest, &ended, &next)
	})
	if err != nil {
		return err
	}
	f.seeThrough(f.lastLook, time.Now(), lowest, highest, ended, next)
	return nil
}

// seeThrough draws the conclusion from one look, which took some time: what it has read is of any moment
// between began and over.
func (f *floor) seeThrough(began, over time.Time, lowest *int64, highest, ended, next int64) {
	if highest < f.seen { // the table has been emptied, and ids begin anew
		f.id, f.seen, f.next, f.passed = 0, 0, nil, 0
		return
	}
	if f.next != nil && ended >= f.next.before {
		f.passed, f.next = f.next.id, nil
	}
	to := f.passed + 1
	if lowest != nil {
		to = min(to, *lowest)
	}
	f.id = max(f.id, to)
	if began.Sub(f.seenAt) >= apart {
		if f.next == nil && f.seen > 0 {
			f.next = &goal{id: f.seen, before: next}
		}
		f.seen, f.seenAt = highest, over
	}
}

// at is where the floor is, for tests.
func (f *floor) at() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.id
}

// sawAt is when the highest id was last taken down, for tests.
func (f *floor) sawAt() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seenAt
}
