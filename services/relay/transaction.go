package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/pkg/postgres"
)

// How the relay begins its transactions, and how it tries something in the middle of one.

// Each transaction asks for READ COMMITTED, whatever the server's default is: a claim needs a new snapshot for its
// second statement, and under a stricter level a row that somebody has just changed is an error and not a row to
// pass over.
const (
	readCommitted = `BEGIN ISOLATION LEVEL READ COMMITTED`
	// beginBatch bounds its waiting below databaseTimeout, so that the server's answer comes before the relay gives the
	// connection up: one row that somebody has locked, or whose trigger does not end, is an error that can be looked into.
	beginBatch = readCommitted + `; SET LOCAL lock_timeout = 1000; SET LOCAL statement_timeout = 4000`
	// beginRowByRow is for finding the rows that are refused. What is checked at the commit otherwise
	// is checked at once, since a commit that fails says nothing of single rows.
	beginRowByRow = readCommitted + `; SET LOCAL lock_timeout = 250; SET LOCAL statement_timeout = 500` + checkAtOnce
	checkAtOnce   = `; SET CONSTRAINTS ALL IMMEDIATE`
)

// beginAs starts a transaction with one of these.
func beginAs(ctx context.Context, pool *pgxpool.Pool, how string) (pgx.Tx, error) {
	return pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: how})
}

// inTransaction runs do in a transaction, and commits it if do returns nil.
func inTransaction(ctx context.Context, pool *pgxpool.Pool, do func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{BeginQuery: readCommitted}, do)
}

// rollback ends a transaction that is of no more use. Whoever called may have run out of time; a
// server that has gone without a word must not hold it up much longer.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = tx.Rollback(ctx) // after a commit it does nothing, and a broken connection has rolled back
}

const rollbackTimeout = time.Second

// inSavepoint runs do, and takes back what it has written if it returns an error: the transaction, and
// the locks that it held before, live on. It has no place where all goes well: an update of a row that the
// same transaction has locked outside the savepoint costs the server a list of lockers for each row.
func inSavepoint(ctx context.Context, tx pgx.Tx, do func() error) error {
	if _, err := tx.Exec(ctx, `SAVEPOINT attempt`); err != nil {
		return err
	}
	if err := do(); err != nil {
		if !refused(err) && !errors.Is(err, errUndo) {
			return err
		}
		if _, lost := tx.Exec(ctx, `ROLLBACK TO SAVEPOINT attempt; RELEASE SAVEPOINT attempt`); lost != nil {
			return lost
		}
		return err
	}
	_, err := tx.Exec(ctx, `RELEASE SAVEPOINT attempt`)
	return err
}

// errUndo ends a rehearsal that went well.
var errUndo = errors.New("rehearsed")

// rehearse finds out whether the database would let do happen, and leaves everything as it was.
func rehearse(ctx context.Context, tx pgx.Tx, do func() error) error {
	err := inSavepoint(ctx, tx, func() error {
		if err := do(); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SET CONSTRAINTS ALL IMMEDIATE`); err != nil {
			return err
		}
		return errUndo
	})
	if errors.Is(err, errUndo) {
		return nil
	}
	return err
}

// refused tells whether err is the database's answer to this statement or this commit, on a connection that lives. A row may be
// to blame, whatever the code says: a trigger raises any, and a disk is full for some rows only. A comparison with other rows decides.
func refused(err error) bool {
	if err == nil || errors.Is(err, pgx.ErrTxClosed) {
		return false
	}
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return answer.SeverityUnlocalized == "ERROR" // FATAL and PANIC end the connection
	}
	return postgres.BlameFor(err) == postgres.Statement
}

// errLeftAsItWas is a refusal without an error: a trigger or a rule has thrown the change away.
var errLeftAsItWas = errors.New("the database left the row as it was, without an error")

// changed turns a statement's result into an error unless it has changed as many rows as it should have.
func changed(tag pgconn.CommandTag, err error, rows int) error {
	if err == nil && int(tag.RowsAffected()) < rows {
		err = errLeftAsItWas
	}
	return err
}
