package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/pkg/printable"
	"example.com/outboxlab/pkg/service"
)

// This file answers: what is to be done about events that were given up? List them, mend the cause,
// requeue them (`relay dead`). A dead event never leaves the outbox by itself.

// DeadCmd is the command line of `relay dead`.
type DeadCmd struct {
	List    DeadListCmd    `cmd:"" help:"List the events given up after the last attempt."`
	Requeue DeadRequeueCmd `cmd:"" help:"Make dead events pending again, with the same event id."`
}

// DeadListCmd lists.
type DeadListCmd struct {
	JSON bool `name:"json" help:"One JSON object a line."`
}

// DeadRequeueCmd requeues.
type DeadRequeueCmd struct {
	IDs []int64 `arg:"" optional:"" name:"id" help:"Outbox ids, as the list shows them."`
	All bool    `help:"Every dead event."`
}

func (c DeadRequeueCmd) check() error {
	if c.All == (len(c.IDs) > 0) {
		return service.Usagef("dead requeue: name ids, or --all")
	}
	return nil
}

type deadEvent struct {
	ID            int64     `json:"id"`
	EventID       uuid.UUID `json:"eventId"`
	Type          string    `json:"type"`
	AggregateType string    `json:"aggregateType"`
	AggregateID   string    `json:"aggregateId"`
	Attempts      int32     `json:"attempts"`
	LastError     string    `json:"lastError"`
	DiedAt        time.Time `json:"diedAt"`
}

// How much of a value the table shows, in characters; --json has all of it.
const (
	nameColumn  = 60
	errorColumn = 200
)

const selectDead = `
SELECT id, event_id, event_type, aggregate_type, aggregate_id, attempt_count, coalesce(last_error, ''),
       least(greatest(dead_lettered_at, ` + firstTime + `), ` + lastTime + `)
FROM orders.outbox
WHERE dead_lettered_at IS NOT NULL
ORDER BY id`

// listDead prints the dead events.
func listDead(ctx context.Context, pool *pgxpool.Pool, c DeadListCmd, stdout io.Writer) error {
	rows, _ := pool.Query(ctx, selectDead)
	dead, err := pgx.CollectRows(rows, pgx.RowToStructByPos[deadEvent])
	if err != nil {
		return err
	}
	if c.JSON {
		encoder := json.NewEncoder(printable.JSON(stdout))
		for _, d := range dead {
			if err := encoder.Encode(d); err != nil {
				return err
			}
		}
		return nil
	}
	if len(dead) == 0 {
		_, err := fmt.Fprintln(stdout, "no dead events")
		return err
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tEVENT\tTYPE\tAGGREGATE\tATTEMPTS\tDIED\tLAST ERROR")
	for _, d := range dead {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s %s\t%d\t%s\t%s\n", d.ID, d.EventID, printable.Cell(d.Type, nameColumn),
			printable.Cell(d.AggregateType, nameColumn), printable.Cell(d.AggregateID, nameColumn),
			d.Attempts, d.DiedAt.UTC().Format(time.DateTime), printable.Cell(d.LastError, errorColumn))
	}
	return table.Flush()
}

// lockDead finds the dead events to requeue: all if $1, otherwise those in $2.
const lockDead = `
SELECT id FROM orders.outbox
WHERE dead_lettered_at IS NOT NULL AND ($1 OR id = ANY($2))
ORDER BY id
FOR UPDATE SKIP LOCKED`

// requeueDead goes through the index of waiting rows, which has no scan floor. Later events of the
// same aggregate may have been published meanwhile: the one documented exception to order. A lease goes
// too: a relay that still holds the row from before has nothing more to say about it.
const requeueDead = `
UPDATE orders.outbox
SET dead_lettered_at = NULL, attempt_count = 0, retry_at = now(), locked_until = NULL, lock_token = NULL
WHERE dead_lettered_at IS NOT NULL AND id = ANY($1)`

// requeue makes dead events pending again, and those that cannot be do not keep the others dead. It
// fails if one that was named is not dead, or is locked, or if the database refuses one.
func requeue(ctx context.Context, pool *pgxpool.Pool, c DeadRequeueCmd, stdout io.Writer) error {
	tx, err := beginAs(ctx, pool, readCommitted+checkAtOnce)
	if err != nil {
		return err
	}
	defer rollback(ctx, tx)
	rows, _ := tx.Query(ctx, lockDead, c.All, c.IDs)
	dead, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	requeued := newBisection(tx)
	err = requeued.apply(ctx, dead, func(ids []int64) error {
		tag, err := tx.Exec(ctx, requeueDead, ids)
		return changed(tag, err, len(ids))
	})
	if err == nil {
		err = tx.Commit(ctx)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "requeued %d\n", len(requeued.accepted))
	for id, why := range requeued.refused {
		return fmt.Errorf("the database refused %d of %d; row %d: %w", len(dead)-len(requeued.accepted), len(dead), id, why)
	}
	if len(requeued.accepted) < len(dead) {
		return fmt.Errorf("no time for %d of %d: requeue again", len(dead)-len(requeued.accepted), len(dead))
	}
	missing := slices.DeleteFunc(slices.Clone(c.IDs), func(id int64) bool { return slices.Contains(dead, id) })
	if len(missing) > 0 {
		return fmt.Errorf("not dead, or locked by somebody, so not requeued: %v", missing)
	}
	return nil
}
