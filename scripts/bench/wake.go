package main

// What does it cost orders to wake the relay? Once through the real service, with its notifier on and off; once with
// the two inserts alone, to see what the obvious way would cost: NOTIFY inside the order's transaction. A session listens
// meanwhile, as a relay would. The ways take turns, so that a change of the machine's mood hits all of them.

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/pkg/outbox"
)

// manyConnections is the orders service's database URL with a connection for each customer.
func (s *site) manyConnections() string {
	return s.OrdersURL + fmt.Sprint("&pool_max_conns=", customers)
}

func ordersWake(ctx context.Context, r *rig) error {
	return r.at(ctx, func(s *site) error {
		listener, err := s.db.Acquire(ctx)
		if err != nil {
			return err
		}
		defer listener.Release()
		if _, err := listener.Exec(ctx, `LISTEN `+outbox.Channel); err != nil {
			return err
		}
		if err := r.wakeOverHTTP(ctx, s); err != nil {
			return err
		}
		return r.wakeInSQL(ctx, s)
	})
}

func (r *rig) wakeOverHTTP(ctx context.Context, s *site) error {
	var ways []way
	for _, c := range []struct{ name, wake string }{
		{"orders over HTTP, nobody woken", "false"},
		{"orders over HTTP, relay woken after commit", "true"},
	} {
		orders, err := s.start(ctx, "orders", "DATABASE_URL="+s.manyConnections(), "ORDERS_WAKE="+c.wake)
		if err != nil {
			return err
		}
		shop := newShop(orders)
		ways = append(ways, way{c.name, func() (float64, error) { return shop.flatOut(ctx, r.round) }})
	}
	rates, err := r.inTurns(ways)
	if err != nil {
		return err
	}
	silent := measure{Name: ways[0].name, Value: rates[0], Unit: "orders/s"}
	r.report(silent, measure{Name: ways[1].name, Value: rates[1], Unit: "orders/s"}.to(silent).atLeast(0.95))
	return nil
}

const insertOrderAlone = `INSERT INTO orders.orders (customer_id, total_kzt) VALUES (101, 12000)`

const insertEventAlone = `
INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload)
VALUES ('order', '1', 'order.placed', '{"orderId": 1, "customerId": 101, "totalKzt": 12000}')`

func (r *rig) wakeInSQL(ctx context.Context, s *site) error {
	pool, err := pgxpool.New(ctx, s.manyConnections())
	if err != nil {
		return err
	}
	defer pool.Close()
	waker := outbox.NewWaker(pool)
	defer waker.Close()
	var ways []way
	for _, c := range []struct {
		name string
		in   bool // notify in the transaction
		wake func()
	}{
		{"inserts alone", false, func() {}},
		{"inserts, outbox.Wake after commit", false, waker.Wake},
		{"inserts, NOTIFY in the transaction", true, func() {}},
	} {
		ways = append(ways, way{c.name, func() (float64, error) {
			return flatOut(ctx, r.round, func(ctx context.Context, _ int) error {
				err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return insertBoth(ctx, tx, c.in) })
				c.wake()
				return err
			})
		}})
	}
	rates, err := r.inTurns(ways)
	if err != nil {
		return err
	}
	alone := measure{Name: ways[0].name, Value: rates[0], Unit: "orders/s"}
	r.report(alone)
	for i, way := range ways[1:] {
		r.report(measure{Name: way.name, Value: rates[1+i], Unit: "orders/s"}.to(alone))
	}
	return nil
}

func insertBoth(ctx context.Context, tx pgx.Tx, notify bool) error {
	statements := []string{insertOrderAlone, insertEventAlone}
	if notify {
		statements = append(statements, `NOTIFY `+outbox.Channel)
	}
	for _, statement := range statements {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
