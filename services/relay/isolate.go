package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Here a claim that the database has refused is looked into: which rows are to blame, and how do they get out of
// the way of the others? Each has failed, and waits for its next try like any event that has failed, until it is dead. If
// not even that can be written, the relay passes it over.

// What the relay was doing with rows when the database refused; the label of relay_refused_rows_total.
const (
	stepRead    = "read"    // its columns, for a claim
	stepMark    = "mark"    // as published
	stepLease   = "lease"   // in claim mode lease
	stepAttempt = "attempt" // writing down that it has failed
	stepDelete  = "delete"  // pruning
)

// cannot says for each step what is wrong with a row, for people.
var cannot = map[string]string{
	stepRead: "cannot be read", stepMark: "cannot be marked as published", stepLease: "cannot be leased",
	stepAttempt: "cannot be marked as failed", stepDelete: "cannot be deleted",
}

// refusedError ends a claim of rows because the database refuses a step for all of them together.
type refusedError struct {
	step  string
	ids   []int64
	wide  bool                                         // there are others among them with which one to blame can be compared, if there are any
	again func(context.Context, pgx.Tx, []int64) error // the step, for some of the rows
	cause error
}

func (e *refusedError) Error() string { return "rows " + cannot[e.step] + ": " + e.cause.Error() }
func (e *refusedError) Unwrap() error { return e.cause }

// isolate finds the rows to blame for a claim that was refused. It returns how many were got out of the way. The
// error says that the rows are not to blame, or that the server is in trouble.
func (c *Claimer) isolate(ctx context.Context, e *refusedError, maxAttempts int) (aside int, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sieveTimeout)
	defer cancel()
	tx, err := beginAs(ctx, c.pool, beginRowByRow)
	if err != nil {
		return 0, err
	}
	defer rollback(ctx, tx)
	rows, err := lockHeld(ctx, tx, lockOurs, e.ids, nil)
	if err != nil {
		return 0, err
	}
	found := newSieve(tx)
	err = rehearse(ctx, tx, func() error {
		return found.apply(ctx, slices.Sorted(maps.Keys(rows)), func(ids []int64) error { return e.again(ctx, tx, ids) })
	})
	if err != nil {
		return 0, err
	}
	toBlame, unclear := c.refusals.judge(len(found.good) > 0, rows.of(found.refused))
	failed := failures{}
	for _, row := range toBlame {
		failed.add(row.id, row.attempts, fmt.Sprintf("%s, so it is not sent: %v", cannot[e.step], found.refused[row.id]))
	}
	written, err := writeEach(ctx, tx, failed, nil, maxAttempts)
	if err != nil {
		return 0, err
	}
	if err := tx.Commit(ctx); err != nil {
		return 0, err
	}
	c.refusals.aside(e.step, failed.ids, found.refused, written)
	return len(failed.ids) + len(unclear), c.refusals.unexplained(e.step, unclear, found.refused)
}

// writtenEach is what became of failures that were written down row by row.
type writtenEach struct {
	dead map[int64]bool // the written ones: whether they are dead now
	not  []int64        // nothing can be written to these
	why  error          // for one of them
}

// writeEach counts the attempts of rows that are locked by tx, as far as the database lets it.
func writeEach(ctx context.Context, tx pgx.Tx, failed failures, token any, maxAttempts int) (writtenEach, error) {
	w := writtenEach{dead: map[int64]bool{}}
	s := newSieve(tx)
	err := s.apply(ctx, failed.ids, func(ids []int64) error {
		dead, err := failed.only(ids).write(ctx, tx, token, maxAttempts)
		if err == nil && len(dead) < len(ids) {
			err = errLeftAsItWas
		}
		maps.Copy(w.dead, dead)
		return err
	})
	for id, err := range s.refused {
		w.not, w.why = append(w.not, id), err
		delete(w.dead, id)
	}
	slices.Sort(w.not)
	return w, err
}

// aside remembers and reports rows that were got out of the way: those to blame for a step, and those to which not
// even a failed attempt can be written.
func (r *refusals) aside(step string, toBlame []int64, why map[int64]error, w writtenEach) {
	if len(w.not) > 0 {
		r.report(report{step: stepAttempt, ids: w.not, cause: w.why, passed: true, isNew: r.passOver(w.not)})
	}
	counted := slices.DeleteFunc(slices.Clone(toBlame), func(id int64) bool { return slices.Contains(w.not, id) })
	if len(counted) > 0 {
		slices.Sort(counted)
		r.report(report{step: step, ids: counted, cause: why[counted[0]]})
	}
}

// unexplained turns rows that were refused while none was accepted into an error that ends the session. They
// are passed over for a moment, so that the next session looks at others.
func (r *refusals) unexplained(step string, unclear []heldRow, why map[int64]error) error {
	if len(unclear) == 0 {
		return nil
	}
	ids := make([]int64, len(unclear))
	for i, row := range unclear {
		ids[i] = row.id
	}
	r.passOver(ids)
	return fmt.Errorf("not one of several rows can be used: row %d %s: %w", ids[0], cannot[step], why[ids[0]])
}

// claimRounds bounds how often a claim is repeated after rows were got out of its way.
const claimRounds = 10

// claim takes rows, and gets those out of the way that the database refuses.
func (r *Relay) claim(ctx context.Context, limit int) (claim *Claim, aside int, err error) {
	inVain := 0
	for range claimRounds {
		claim, err := r.claimOnce(ctx, limit)
		e, ok := errors.AsType[*refusedError](err)
		if !ok {
			return claim, aside, err
		}
		if !e.wide { // look at more rows before one is blamed
			r.claimer.refusals.doubt()
			continue
		}
		n, err := r.claimer.isolate(ctx, e, r.maxAttempts)
		aside += n
		if err != nil {
			return nil, aside, err
		}
		if inVain++; n > 0 {
			inVain = 0
		}
		if inVain == 3 { // each of them can be used, and all together cannot
			return nil, aside, e
		}
	}
	return &Claim{}, aside, nil
}

// claimOnce takes rows, after a look at how far the scan floor may rise.
func (r *Relay) claimOnce(ctx context.Context, limit int) (*Claim, error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	if err := r.claimer.floor.raise(ctx, r.pool); err != nil {
		return nil, fmt.Errorf("scan floor: %w", err)
	}
	return r.claimer.Claim(ctx, limit)
}
