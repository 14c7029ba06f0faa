package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// A bisection finds the rows that the database refuses: it applies a change to all rows together or, where
// that is refused, to each half by itself, down to single rows. The transaction keeps what was accepted.
type bisection struct {
	tx    pgx.Tx
	until time.Time // what has not been tried by then is left for another time

	accepted []int64
	refused  map[int64]error // each by itself
	untried  []int64         // neither accepted nor tried by themselves
	refusals int             // tries that were refused
	lastWhy  error           // of these
}

const (
	// bisectFor bounds how long rows are sorted, bisectTimeout the transaction around that: rows to compare with may be sorted, too.
	bisectFor     = 6 * time.Second
	bisectTimeout = 15 * time.Second
	// bisectTries is after how many tries, all of them refused, the rest is left: probably no row is accepted.
	bisectTries = 200
)

func newBisection(tx pgx.Tx) *bisection {
	return &bisection{tx: tx, until: time.Now().Add(bisectFor), refused: map[int64]error{}}
}

// apply calls do for sets of ids that together are all of them, larger sets first: if the time is up, few are left.
// It returns an error only if the connection is of no more use.
func (b *bisection) apply(ctx context.Context, ids []int64, do func([]int64) error) error {
	for sets := [][]int64{ids}; len(sets) > 0; sets = sets[1:] {
		set := sets[0]
		if len(set) == 0 || time.Now().After(b.until) || (len(b.accepted) == 0 && b.refusals >= bisectTries) {
			b.untried = append(b.untried, set...)
			continue
		}
		err := inSavepoint(ctx, b.tx, func() error { return do(set) })
		switch {
		case err == nil:
			b.accepted = append(b.accepted, set...)
			continue
		case !refused(err):
			return err
		}
		b.refusals++
		b.lastWhy = err
		if len(set) == 1 {
			b.refused[set[0]] = err
			continue
		}
		half := len(set) / 2
		sets = append(sets, set[:half], set[half:])
	}
	return nil
}

// refusedIDs are the ids of single rows that were refused, in order.
func (b *bisection) refusedIDs() []int64 { return slices.Sorted(maps.Keys(b.refused)) }

// lockOurs finds those of the rows that are still pending and still this relay's: by its token $2 or, in mode tx, because
// they are nobody's. Rows that somebody has locked are left out.
const lockOurs = `
SELECT id, attempt_count
FROM orders.outbox
WHERE id = ANY($1) AND published_at IS NULL AND dead_lettered_at IS NULL
  AND CASE WHEN $2::uuid IS NULL THEN locked_until IS NULL OR locked_until < now() ELSE lock_token = $2 END
ORDER BY id
FOR UPDATE SKIP LOCKED`

// attempts of rows that a transaction has locked, by id.
type attempts map[int64]int

func lockRowsOfOurs(ctx context.Context, tx pgx.Tx, ids []int64, token any) (attempts, error) {
	rows, _ := tx.Query(ctx, lockOurs, ids, token)
	found := attempts{}
	var id int64
	var n int
	_, err := pgx.ForEachRow(rows, []any{&id, &n}, func() error { found[id] = n; return nil })
	return found, err
}

// among keeps those of the ids that are locked.
func (a attempts) among(ids []int64) (kept []int64) {
	for _, id := range ids {
		if _, ok := a[id]; ok {
			kept = append(kept, id)
		}
	}
	return kept
}
