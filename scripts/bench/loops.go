package main

// The plainest loop that can be written shows what order and bookkeeping cost the relay. It claims, publishes all, waits
// for all confirms and settles, by marking rows or by deleting them; it knows no order, no attempts, no watermark.

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

func (r *rig) plainLoops(ctx context.Context) (loops []contestant) {
	for _, settlement := range settlements {
		name := "plain loop without order, settled by " + settlement.name
		loops = append(loops, contestant{name: name, run: r.inLab(ctx, func(s *site) ([]reading, error) {
			if err := s.fill(ctx, r.events, r.events); err != nil {
				return nil, err
			}
			return s.drainPlainly(ctx, r.events, settlement.sql)
		})})
	}
	return loops
}

func (s *site) drainPlainly(ctx context.Context, n int, settle string) ([]reading, error) {
	publishers, err := s.openPublishers(ctx, rawPublish{connections: 1, channels: 1})
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, s.OwnerURL)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return timed(n, "events/s", func() error {
		for {
			n, err := batchPlainly(ctx, conn, publishers[0], settle)
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
