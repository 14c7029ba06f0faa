package main

import (
	"testing"
	"time"

	"example.com/outboxlab/scripts/lab"
)

// The interleaving: a transaction has got id 1 and stays open; ids 2 to 51 are committed and
// published, or nothing else happens at all; the relay looks again and again. The floor must not pass
// id 1, and once that commits it is published by the next claim, not by the full look that comes once a
// minute.
func TestTheFloorWaitsForATransactionThatMayStillCommitBelowIt(t *testing.T) {
	t.Run("others commit", func(t *testing.T) { commitLate(t, 50) })
	t.Run("nothing else happens", func(t *testing.T) { commitLate(t, 0) })
}

func commitLate(t *testing.T, others int64) {
	t.Helper()
	l := lab.ForTest(t)
	db := l.Owner(t)
	r := newTestRelay(t, l, settings{claim: "tx", batch: 100})
	r.claimer.floor.lastFull = time.Now() // no full look in this test

	late := begin(t, db)
	if _, err := late.Exec(t.Context(), insertEvents, 1); err != nil {
		t.Fatal(err)
	}
	lab.Exec(t, db, insertEvents, others)
	runRelay(t, r)
	lab.AwaitOne(t, db, 0, countPending)
	times := 0
	last := r.claimer.floor.sawAt()
	lab.Poll(t, awaitLimit, "the highest id taken down five more times", func() (bool, error) {
		if at := r.claimer.floor.sawAt(); at != last {
			last = at
			times++
		}
		return times >= 5, nil
	})
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	lab.AwaitOne(t, db, 0, countPending)
	lab.Poll(t, awaitLimit, "with nothing open the floor rises", func() (bool, error) { return r.claimer.floor.at() == others+2, nil })
}

// A session that only reads, however old its snapshot, does not hold the floor.
func TestAnOldSnapshotDoesNotHoldTheFloor(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	reader := begin(t, db)
	if _, err := reader.Exec(t.Context(), `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Exec(t.Context(), `SELECT count(*) FROM orders.outbox`); err != nil {
		t.Fatal(err)
	}
	r := newTestRelay(t, l, settings{claim: "tx", batch: 100})
	r.claimer.floor.lastFull = time.Now()
	lab.Exec(t, db, insertEvents, 50)
	runRelay(t, r)
	lab.Poll(t, awaitLimit, "the floor rises", func() (bool, error) { return r.claimer.floor.at() == 51, nil })
}

// The floor stops at a row that a peer holds: it may become free again.
func TestTheFloorStopsAtARowThatAPeerHolds(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	lab.Exec(t, db, insertEvents, 10)
	lab.Exec(t, db, `UPDATE orders.outbox SET locked_until = now() + interval '1 hour' WHERE id = 5`)
	r := newTestRelay(t, l, settings{claim: "tx", batch: 100})
	r.claimer.floor.lastFull = time.Now()
	runRelay(t, r)
	lab.Poll(t, awaitLimit, "the floor rises to the row held", func() (bool, error) { return r.claimer.floor.at() == 5, nil })
}

// A row with an id far above all others does not lift the floor over those that come next.
func TestAnIDOutOfTheOrderDoesNotHideTheNextOnes(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	r := newTestRelay(t, l, settings{claim: "tx", batch: 100})
	r.claimer.floor.lastFull = time.Now()
	runRelay(t, r)
	lab.Exec(t, db, `INSERT INTO orders.outbox (id, aggregate_type, aggregate_id, event_type, payload)
		OVERRIDING SYSTEM VALUE VALUES (1000000000000, 'order', 'far', 'order.placed', '{}')`)
	lab.Exec(t, db, insertEvents, 5)
	lab.AwaitOne(t, db, 0, countPending)
	lab.Poll(t, awaitLimit, "the floor rises over them", func() (bool, error) { return r.claimer.floor.at() == 6, nil })
	lab.Exec(t, db, insertEvents, 5)
	lab.AwaitOne(t, db, 0, countPending)
}

// Rows that somebody has made pending again below the floor are found by the full look, all of them.
func TestAFullLookLowersTheFloorToWhatItFinds(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	lab.Exec(t, db, insertEvents, 50)
	r := newTestRelay(t, l, settings{claim: "tx", batch: 10})
	r.claimer.floor.id, r.claimer.floor.lastFull = 51, time.Now().Add(-fullEvery)
	runRelay(t, r)
	lab.AwaitOne(t, db, 0, countPending)
}

// seeThrough, look by look.
func TestTheFloorRisesOnlyWhenAllWritersThatCouldBeBelowHaveEnded(t *testing.T) {
	id := func(n int64) *int64 { return &n }
	f := &floor{}
	began := time.Now()
	for n, look := range []struct {
		ms                   int64
		lowest               *int64
		highest, ended, next int64
		want                 int64
	}{
		{0, id(4), 9, 100, 105, 1},     // sees id 9
		{20, id(4), 11, 105, 106, 1},   // too soon to conclude anything
		{1000, id(4), 12, 100, 107, 1}, // ids up to 9 were handed out before number 107
		{1020, id(4), 12, 106, 110, 1}, // a writer below 107 is still open
		{1040, id(4), 12, 107, 111, 4}, // none is; the lowest ready row is 4
		{1060, id(7), 12, 107, 111, 7}, // and now 7
		{1080, nil, 12, 107, 111, 10},
		{2000, nil, 15, 110, 114, 10}, // up to 12, once 114 is reached
		{2020, nil, 15, 113, 115, 10},
		{2040, nil, 15, 114, 116, 13},
	} {
		now := began.Add(time.Duration(look.ms) * time.Millisecond)
		if f.seeThrough(now, now, look.lowest, look.highest, look.ended, look.next); f.id != look.want {
			t.Errorf("look %d: floor %d, want %d", n+1, f.id, look.want)
		}
	}
}

// A look that had to wait for its answer may have read M at the end of it, and X is not older than that by much.
func TestTheFloorCountsFromTheEndOfALook(t *testing.T) {
	f := &floor{}
	began := time.Now()
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	f.seeThrough(at(0), at(1500), nil, 2, 100, 100)    // M = 2; its writer has no number yet
	f.seeThrough(at(1520), at(1521), nil, 2, 100, 100) // too soon for X
	f.seeThrough(at(1540), at(1541), nil, 2, 101, 101)
	if f.id > 1 {
		t.Errorf("floor %d", f.id)
	}
}

// A table that has been emptied begins anew with low ids, wherever the floor was.
func TestTheFloorGoesDownWhenIDsBeginAnew(t *testing.T) {
	id := func(n int64) *int64 { return &n }
	f := &floor{}
	now := time.Now()
	for range 3 {
		now = now.Add(apart)
		f.seeThrough(now, now, id(4), 1000, 100, 100) // all up to 1000 visible, and id 4 held by a peer
	}
	now = now.Add(apart)
	f.seeThrough(now, now, id(11), 50, 105, 107) // 5 to 10 belong to a writer that is open
	if f.id > 5 {
		t.Errorf("floor %d", f.id)
	}
}
