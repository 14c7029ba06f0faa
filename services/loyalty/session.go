package main

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/pkg/postgres"
	"example.com/outboxlab/pkg/rabbitmq"
	"example.com/outboxlab/pkg/service"
)

// This file answers: how long does consuming go on? For one session: one connection, one channel,
// and whatever breaks ends it as a whole. window.go says how many messages the session holds; the
// walk goes on to rabbitmq.go, which decides what becomes of them.

const (
	// giveBackTimeout bounds how long a frozen broker may hold up the end of a session.
	giveBackTimeout = 3 * time.Second
	// idleAfter is how long after trouble a session may be without messages until it counts as ready: somebody else may
	// have taken them all, and so nothing is left to show that awards are possible. The rehearsal has shown it.
	idleAfter = time.Second
)

// Consumer awards points for the messages of the queue.
type Consumer struct {
	pool    *pgxpool.Pool
	config  Config
	log     *slog.Logger
	metrics *metrics
	started time.Time

	watcher  service.Keeper          // of the queues (watch.go)
	attached atomic.Bool             // to the queue, so that messages can come
	trouble  atomic.Pointer[trouble] // nil when the last award went well, as far as the database is concerned
	// inTrouble is how many sessions in a row have ended because of the database, without handling anything.
	inTrouble int
}

// needs is what loyalty does with its tables.
var needs = []postgres.Need{
	{Privilege: "SELECT", Table: "loyalty.ledger"}, {Privilege: "INSERT", Table: "loyalty.ledger"},
	{Privilege: "SELECT", Table: "loyalty.processed_messages"}, {Privilege: "INSERT", Table: "loyalty.processed_messages"},
	{Privilege: "DELETE", Table: "loyalty.processed_messages"},
	{Privilege: "SELECT", Table: "loyalty.failures"}, {Privilege: "DELETE", Table: "loyalty.failures"}, // an award deletes; a note may fail
}

// newConsumer makes a consumer. Its sessions are run by serve.
func newConsumer(pool *pgxpool.Pool, config Config, log *slog.Logger) *Consumer {
	return &Consumer{
		pool: pool, config: config, log: log, metrics: newMetrics(), started: time.Now(),
		watcher: service.Keeper{Log: log, What: "watching the queues (consuming goes on without)", Optional: true},
	}
}

// Ready tells whether messages can come and be handled.
func (c *Consumer) Ready(ctx context.Context) error {
	if !c.attached.Load() {
		return errors.New("not attached to the queue")
	}
	if t := c.trouble.Load(); t != nil { // the server may well answer a query, and have no room for a row
		return t
	}
	return postgres.Ready(ctx, c.pool, "loyalty.processed_messages")
}

// askTimeout bounds the question whether the database is there.
const askTimeout = 5 * time.Second

// askDatabase asks whether awards are possible, on a connection of the pool. One that has gone silent is still in the pool, and
// so may be all the others: they are dropped, and the next question is asked on a new one.
func (c *Consumer) askDatabase(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err := postgres.Ready(ctx, c.pool, "loyalty.processed_messages", needs...)
	if err != nil {
		c.pool.Reset()
		return err
	}
	if c.trouble.Load() != nil {
		if err := rehearse(ctx, c.pool); err != nil {
			c.pool.Reset()
			return &trouble{err}
		}
	}
	return nil
}

// session consumes over one connection until something breaks or ctx ends. It starts only when the
// database answers, and after trouble only when it could award, so this is waited out with no message in hand.
func (c *Consumer) session(ctx context.Context, life *service.Life) error {
	if err := c.askDatabase(ctx); err != nil {
		return err
	}
	w := &window{most: c.config.Prefetch, size: 1, timeout: c.config.ConsumerTimeout}
	conn, ch, err := rabbitmq.Open(ctx, c.config.AMQPURL, "loyalty", func(ch *amqp.Channel) error {
		if err := topology.Declare(ch); err != nil {
			return err
		}
		w.ch = ch
		return w.open()
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	c.attached.Store(true)
	defer c.attached.Store(false)
	stopWatching := c.startWatching(ctx)
	defer stopWatching()
	attached := time.Now()
	worked, err := c.consume(ctx, life, ch, w)
	err = conn.Explain(err)
	if !giveBack(conn, ch) && !worked && (w.received.Load() || time.Since(attached) < soon) {
		err = service.Costly(err)
	}
	return err
}

// soon is within what time of its start a lost session may have been handed a message that had not been read.
const soon = 5 * time.Second

// consume handles messages until something breaks or ctx ends. It reports whether the broker has taken a settlement.
// After trouble the session is not ready before a message has been handled, or none has come for a while.
func (c *Consumer) consume(ctx context.Context, life *service.Life, ch *amqp.Channel, w *window) (worked bool, err error) {
	before := c.trouble.Load()
	if before == nil {
		life.Ready()
	}
	idle := time.AfterFunc(idleAfter, func() {
		if c.trouble.CompareAndSwap(before, nil) { // not what a message has just met
			life.Ready()
		}
	})
	defer idle.Stop()
	for {
		batch, err := w.take(ctx, c.config.Batch)
		if err != nil || ctx.Err() != nil { // what has been taken but not started is given back
			return worked, err
		}
		idle.Stop()
		start := time.Now()
		succeeded, err := c.handle(ctx, ch, batch)
		c.metrics.handleSeconds.Observe(time.Since(start).Seconds())
		c.metrics.batchSize.Observe(float64(len(batch)))
		if err != nil {
			if t, ok := errors.AsType[*trouble](err); ok {
				c.trouble.Store(t)
				c.inTrouble++
			}
			return worked, err
		}
		if succeeded {
			c.inTrouble = 0
		}
		c.trouble.Store(nil)
		w.handled(batch, succeeded)
		if !worked {
			// A settlement has no answer. One that the broker does not take ends the channel, and must not look like work.
			if err := w.sync(); err != nil {
				return false, err
			}
			worked = true
			life.Worked()
		}
	}
}

// giveBack ends consuming in order: no new messages, and those in hand return to the queue at once
// and uncounted. Closing the channel without it would count as a failed delivery of every message
// in hand, as a crash does (facts 1.1). It reports false on a lost channel, where that has happened.
func giveBack(conn *rabbitmq.Conn, ch *amqp.Channel) bool {
	tooLate := time.AfterFunc(giveBackTimeout, func() { conn.Close() })
	defer tooLate.Stop()
	return ch.Cancel(consumerName, false) == nil && nackAll(ch) == nil
}

// nackAll returns everything in hand to the queue, at once and uncounted.
func nackAll(ch *amqp.Channel) error {
	const all, multiple, requeue = 0, true, true
	return ch.Nack(all, multiple, requeue)
}
