package main

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// A sieve finds the rows that the database refuses: it applies a change to all rows together or, where
// that is refused, to each half by itself, down to single rows. The transaction keeps what was accepted.
type sieve struct {
	tx    pgx.Tx
	until time.Time // rows that have not had their turn by then wait for another time

	good    []int64
	refused map[int64]error
	tried   int // refused tries
}

const (
	// sieveFor bounds how long rows are sorted, sieveTimeout the transaction around that.
	sieveFor     = 10 * time.Second
	sieveTimeout = 15 * time.Second
	// sieveInVain is after how many tries, all of them refused, the rest is left: these are not single rows.
	sieveInVain = 200
)

func newSieve(tx pgx.Tx) *sieve {
	return &sieve{tx: tx, until: time.Now().Add(sieveFor), refused: map[int64]error{}}
}

// apply calls do for sets of ids that together are all of them, larger sets first: if the time is up, few are left.
// It returns an error only if the server is in trouble.
func (s *sieve) apply(ctx context.Context, ids []int64, do func([]int64) error) error {
	for sets := [][]int64{ids}; len(sets) > 0; sets = sets[1:] {
		set := sets[0]
		if len(set) == 0 || time.Now().After(s.until) || (len(s.good) == 0 && s.tried >= sieveInVain) {
			continue
		}
		err := inSavepoint(ctx, s.tx, func() error { return do(set) })
		switch {
		case err == nil:
			s.good = append(s.good, set...)
			continue
		case !refused(err):
			return err
		}
		s.tried++
		if len(set) == 1 {
			s.refused[set[0]] = err
			continue
		}
		half := len(set) / 2
		sets = append(sets, set[:half], set[half:])
	}
	return nil
}

// heldRow is a row that is this relay's, with its attempts so far.
type heldRow struct {
	id       int64
	attempts int
}

// lockOurs finds those of the rows that are still pending and still this relay's: by its token $2 or, in mode tx, because
// they are nobody's. Rows that somebody has locked are left out.
const lockOurs = `
SELECT id, attempt_count
FROM orders.outbox
WHERE id = ANY($1) AND published_at IS NULL AND dead_lettered_at IS NULL
  AND CASE WHEN $2::uuid IS NULL THEN locked_until IS NULL OR locked_until < now() ELSE lock_token = $2 END
ORDER BY id
FOR UPDATE SKIP LOCKED`

// waitForOurs is the same, and waits for rows that are locked.
var waitForOurs = strings.TrimSuffix(lockOurs, " SKIP LOCKED")

// held are rows by id.
type held map[int64]heldRow

func lockHeld(ctx context.Context, tx pgx.Tx, how string, ids []int64, token any) (held, error) {
	rows, _ := tx.Query(ctx, how, ids, token)
	found := held{}
	var row heldRow
	_, err := pgx.ForEachRow(rows, []any{&row.id, &row.attempts}, func() error {
		found[row.id] = row
		return nil
	})
	return found, err
}

// among keeps those of the ids that are held.
func (h held) among(ids []int64) (kept []int64) {
	for _, id := range ids {
		if _, ok := h[id]; ok {
			kept = append(kept, id)
		}
	}
	return kept
}

// of are the held rows that a sieve has refused, in no order.
func (h held) of(refused map[int64]error) (rows []heldRow) {
	for id := range refused {
		rows = append(rows, h[id])
	}
	return rows
}
