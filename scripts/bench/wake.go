package main

// Two parts ask what accepting an order costs. Intake compares the orders service with nothing but the two inserts. Wake
// asks what it costs to wake the relay: once through the service, with its notifier on and off; once with the two inserts,
// to see what the obvious way would cost, NOTIFY inside the order's transaction. A session listens, as a relay would.

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

// listening makes a site in which a session listens.
func (r *rig) listening(ctx context.Context, do func(s *site) error) error {
	return r.at(ctx, func(s *site) error {
		listener, err := s.db.Acquire(ctx)
		if err != nil {
			return err
		}
		defer listener.Release()
		if _, err := listener.Exec(ctx, `LISTEN `+outbox.Channel); err != nil {
			return err
		}
		return do(s)
	})
}

func ordersIntake(ctx context.Context, r *rig) error {
	return r.listening(ctx, func(s *site) error {
		pool, err := pgxpool.New(ctx, s.manyConnections())
		if err != nil {
			return err
		}
		defer pool.Close()
		orders, err := s.start(ctx, "orders", "DATABASE_URL="+s.manyConnections())
		if err != nil {
			return err
		}
		shop := newShop(orders)
		for _, clients := range []int{8, customers} {
			with := fmt.Sprintf(", clients %d", clients)
			measures, err := r.compare(
				contestant{name: "two inserts" + with, ceiling: true, run: func() ([]reading, error) {
					return flatOut(ctx, clients, r.round, func(ctx context.Context) error { return insertBoth(ctx, pool, false) })
				}},
				contestant{name: "orders over HTTP" + with, atLeast: 0.80, run: func() ([]reading, error) {
					return flatOut(ctx, clients, r.round, shop.place)
				}})
			if err != nil {
				return err
			}
			r.report(measures...)
		}
		return nil
	})
}

func ordersWake(ctx context.Context, r *rig) error {
	return r.listening(ctx, func(s *site) error {
		if err := r.wakeOverHTTP(ctx, s); err != nil {
			return err
		}
		return r.wakeInSQL(ctx, s)
	})
}

func (r *rig) wakeOverHTTP(ctx context.Context, s *site) error {
	way := func(name, wake string, ceiling bool, atLeast float64) (contestant, error) {
		orders, err := s.start(ctx, "orders", "DATABASE_URL="+s.manyConnections(), "ORDERS_WAKE="+wake)
		if err != nil {
			return contestant{}, err
		}
		shop := newShop(orders)
		return contestant{name, ceiling, atLeast, func() ([]reading, error) {
			return flatOut(ctx, customers, r.round, shop.place)
		}}, nil
	}
	silent, err := way("orders over HTTP, nobody woken", "false", true, 0)
	if err != nil {
		return err
	}
	waking, err := way("orders over HTTP, relay woken after commit", "true", false, 0.95)
	if err != nil {
		return err
	}
	measures, err := r.compare(silent, waking)
	r.report(measures...)
	return err
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
	way := func(name string, ceiling, notify bool, wake func()) contestant {
		return contestant{name: name, ceiling: ceiling, run: func() ([]reading, error) {
			return flatOut(ctx, customers, r.round, func(ctx context.Context) error {
				err := insertBoth(ctx, pool, notify)
				wake()
				return err
			})
		}}
	}
	nobody := func() {}
	measures, err := r.compare(
		way("two inserts", true, false, nobody),
		way("two inserts, outbox.Wake after commit", false, false, waker.Wake),
		way("two inserts, NOTIFY in the transaction", false, true, nobody))
	r.report(measures...)
	return err
}

// insertBoth writes an order and its event in one transaction, in the plainest way.
func insertBoth(ctx context.Context, pool *pgxpool.Pool, notify bool) error {
	statements := []string{insertOrderAlone, insertEventAlone}
	if notify {
		statements = append(statements, `NOTIFY `+outbox.Channel)
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for _, statement := range statements {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}
