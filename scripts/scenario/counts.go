// What is there to count? The raw material of every verdict, as sets rather than sums, so that a broken invariant
// can name the ids that offend.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// counts is everything a verdict looks at, read at one moment.
type counts struct {
	accepted []int64          // orders whose customer was told 201
	orders   map[int64]int    // order id → points it is worth
	events   map[string]int64 // event id → order id (0 when the payload names none): in the outbox, or published and pruned since
	rows     map[string]row   // event id → what the outbox says of it
	pending  []string         // event ids neither published nor given up
	givenUp  map[string]bool  // event ids that the relay has given up: dead in the outbox
	ledger   []award
	inbox    map[string]bool // event ids the loyalty service has recorded as handled
	dead     []deadLetter
	ready    int // messages left in the loyalty queue

	published []publication
	delivered []delivery
	gaps      int // > 0: the broker was restarted, the tap missed something, its numbers are lower bounds
}

// award is one ledger row.
type award struct {
	Order  int64
	Points int
}

// count reads everything. Servers that are just coming back are given a moment.
func (s *stage) count(ctx context.Context) (counts, error) {
	c, err := s.traffic(ctx)
	if err != nil {
		return c, err
	}
	if c.orders, err = pairs[int64, int](ctx, s, `SELECT id, total_kzt / 100 FROM orders.orders`); err != nil {
		return c, err
	}
	if err = s.readOutbox(ctx, &c); err != nil {
		return c, err
	}
	rows, _ := s.db.Query(ctx, `SELECT order_id, points FROM loyalty.ledger ORDER BY id`)
	if c.ledger, err = pgx.CollectRows(rows, pgx.RowToStructByPos[award]); err != nil {
		return c, fmt.Errorf("read the ledger: %w", err)
	}
	if c.inbox, err = pairs[string, bool](ctx, s, `SELECT message_id::text, true FROM loyalty.processed_messages WHERE consumer = '`+inboxConsumer+`'`); err != nil {
		return c, err
	}
	if c.dead, err = s.broker.parked(); err != nil {
		return c, err
	}
	c.ready, err = s.broker.queue(loyaltyQueue)
	return c, err
}

func pairs[K comparable, V any](ctx context.Context, s *stage, query string) (map[K]V, error) {
	found := map[K]V{}
	rows, _ := s.db.Query(ctx, query) // its error comes out of ForEachRow
	var key K
	var value V
	_, err := pgx.ForEachRow(rows, []any{&key, &value}, func() error { found[key] = value; return nil })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	return found, nil
}

// traffic is the part of the counts that the tap knows.
func (s *stage) traffic(ctx context.Context) (counts, error) {
	published, delivered, err := s.tap.seen(ctx)
	if err != nil {
		return counts{}, err
	}
	c := counts{published: published, delivered: delivered, events: map[string]int64{}, gaps: s.tap.missed()}
	for _, p := range published {
		c.events[p.id] = orderOf(p.body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.accepted = append(c.accepted, s.accepted...)
	return c, nil
}

// deliveriesOf returns the times at which the event of one order was delivered.
func (s *stage) deliveriesOf(ctx context.Context, order string) ([]time.Time, error) {
	c, err := s.traffic(ctx)
	var times []time.Time
	for _, d := range c.delivered {
		if fmt.Sprint(c.events[d.id]) == order {
			times = append(times, d.at)
		}
	}
	return times, err
}

func (c counts) distinctPublished() int {
	ids := map[string]bool{}
	for _, p := range c.published {
		ids[p.id] = true
	}
	return len(ids)
}

func (c counts) republished() int { return len(c.published) - c.distinctPublished() }

func (c counts) redeliveries() int {
	n := 0
	for _, d := range c.delivered {
		if d.redelivered {
			n++
		}
	}
	return n
}

// failures is the highest number of failed attempts that any delivery carried.
func (c counts) failures() int { return c.failuresUntil(time.Now()) }

func (c counts) failuresUntil(moment time.Time) int {
	highest := int64(0)
	for _, d := range c.delivered {
		if d.at.Before(moment) {
			highest = max(highest, d.failures)
		}
	}
	return int(highest)
}

func (c counts) publishesByConnection() map[string]int {
	by := map[string]int{}
	for _, p := range c.published {
		by[p.connection]++
	}
	return by
}

func (c counts) fewest() int {
	least := len(c.published)
	for _, n := range c.publishesByConnection() {
		least = min(least, n)
	}
	return least
}

func (c counts) points() int {
	sum := 0
	for _, a := range c.ledger {
		sum += a.Points
	}
	return sum
}
