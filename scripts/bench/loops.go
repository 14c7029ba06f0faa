package main

// What do order and bookkeeping cost the relay? The plainest loop that can be written: claim, publish all, await all,
// settle; no order per aggregate, no attempts, no floor. It settles by marking rows, or by deleting them.

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"
)

const claimPlainly = `
SELECT id, event_id, payload
FROM orders.outbox
WHERE published_at IS NULL AND dead_lettered_at IS NULL AND retry_at IS NULL
ORDER BY id
LIMIT $1
FOR UPDATE SKIP LOCKED`

// settlements are the two ways; the first is what the relay does.
var settlements = []struct{ name, sql string }{
	{"mark", `UPDATE orders.outbox SET published_at = clock_timestamp() WHERE id = ANY($1)`},
	{"delete", `DELETE FROM orders.outbox WHERE id = ANY($1)`},
}

func (r *rig) plainLoops(ctx context.Context) (loops []way) {
	for _, settlement := range settlements {
		name := "plain loop without order, settled by " + settlement.name
		loops = append(loops, way{name, func() (rate float64, err error) {
			err = r.at(ctx, func(s *site) error {
				if err := s.fill(ctx, r.events); err != nil {
					return err
				}
				seconds, err := s.drainPlainly(ctx, settlement.sql)
				rate = float64(r.events) / seconds
				return err
			})
			return rate, err
		}})
	}
	return loops
}

func (s *site) drainPlainly(ctx context.Context, settle string) (seconds float64, err error) {
	p, err := s.newPublisher(defaultBatch)
	if err != nil {
		return 0, err
	}
	conn, err := pgx.Connect(ctx, s.OwnerURL)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return timed(func() error {
		for {
			n, err := batchPlainly(ctx, conn, p, settle)
			if err != nil || n == 0 {
				return err
			}
		}
	})
}

func batchPlainly(ctx context.Context, conn *pgx.Conn, p *publisher, settle string) (n int, err error) {
	var ids []int64
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, claimPlainly, defaultBatch)
		var id int64
		var event uuid.UUID
		var payload []byte
		var batch []amqp.Publishing
		if _, err := pgx.ForEachRow(rows, []any{&id, &event, &payload}, func() error {
			m := orderPlaced(int(id))
			m.MessageId, m.Body = event.String(), append([]byte(nil), payload...)
			ids, batch = append(ids, id), append(batch, m)
			return nil
		}); err != nil || len(ids) == 0 {
			return err
		}
		for _, m := range batch {
			if err := p.send(ctx, m); err != nil {
				return err
			}
		}
		if err := p.flush(ctx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, settle, ids)
		return err
	})
	return len(ids), err
}
