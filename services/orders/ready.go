package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/pkg/postgres"
)

// Orders is ready when the database answers and takes orders. A database whose disk is full answers every question and
// refuses every order; so once an order could not be written, readiness is found out by writing one, and rolling it back.

// lastWrite remembers whether the last order could be written.
type lastWrite struct {
	pool   *pgxpool.Pool
	failed atomic.Bool
}

// note takes the outcome of Place. A client that has gone says nothing about the database.
func (w *lastWrite) note(err error) {
	if !errors.Is(err, context.Canceled) {
		w.failed.Store(err != nil)
	}
}

// ready tells whether an order can be written now.
func (w *lastWrite) ready(ctx context.Context) error {
	if err := postgres.Ready(ctx, w.pool, "orders.outbox"); err != nil || !w.failed.Load() {
		return err
	}
	if err := w.try(ctx); err != nil {
		return fmt.Errorf("orders cannot be written: %w", err)
	}
	w.failed.Store(false)
	return nil
}

// try writes an order with its event and takes them back. Their ids are used up, as those of any order that fails.
func (w *lastWrite) try(ctx context.Context) error {
	return postgres.Read(ctx, w.pool, func() error {
		tx, err := w.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
		if err != nil {
			return err
		}
		_, err = write(ctx, tx, NewOrder{CustomerID: 1, TotalKZT: 1})
		if err == nil {
			_, err = tx.Exec(ctx, `SET CONSTRAINTS ALL IMMEDIATE`) // what would otherwise be checked by the commit
		}
		rolling, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		return errors.Join(err, tx.Rollback(rolling))
	})
}
