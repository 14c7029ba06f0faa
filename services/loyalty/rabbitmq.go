package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/crash"
	"example.com/outboxlab/pkg/events"
	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/pkg/postgres"
	"example.com/outboxlab/pkg/rabbitmq"
)

// This file answers: what becomes of a message? One switch decides (settle). The broker tells two
// ways of giving a message back apart, and so does this code: reject(requeue) says "it failed", is
// counted and delayed; nack(requeue) says "not now", is free and immediate (facts 1.1). From here
// the walk goes on to award.go.

// handleTimeout bounds the handling of one message. A database that does not answer within it
// counts as unreachable.
const handleTimeout = 10 * time.Second

// giveBackTimeout bounds how long a frozen broker may hold up the end of a session.
const giveBackTimeout = 3 * time.Second

// Consumer awards points for the messages of the queue.
type Consumer struct {
	pool     *pgxpool.Pool
	url      rabbitmq.URL
	prefetch int
	log      *slog.Logger

	attached atomic.Bool // to the queue, so that messages can come
}

// errDatabaseAway ends a session: without its database this service should hold no messages.
var errDatabaseAway = errors.New("database unreachable")

// Ready tells whether messages can come and be handled.
func (c *Consumer) Ready(ctx context.Context) error {
	if !c.attached.Load() {
		return errors.New("not attached to the queue")
	}
	return postgres.Ready(ctx, c.pool)
}

// session consumes over one connection until something breaks or ctx ends. It starts only when the
// database answers, so an outage of the database is waited out with no message in hand.
func (c *Consumer) session(ctx context.Context, up func()) error {
	if err := postgres.Ready(ctx, c.pool); err != nil {
		return err
	}
	var deliveries <-chan amqp.Delivery
	conn, ch, err := rabbitmq.Open(ctx, c.url, "loyalty", func(ch *amqp.Channel) (err error) {
		deliveries, err = c.consume(ch)
		return err
	})
	if err != nil {
		return err
	}
	defer rabbitmq.Close(conn)
	defer giveBack(conn, ch)
	c.attached.Store(true)
	defer c.attached.Store(false)
	up()
	for {
		select {
		case <-ctx.Done():
			return nil
		case d, open := <-deliveries:
			if !open { // connection lost, channel closed, or consumer cancelled by the broker
				return errors.New("session ended by the broker")
			}
			if ctx.Err() != nil { // both were ready: d has not been started, and is given back
				return nil
			}
			if err := c.handle(ctx, d); err != nil {
				return err
			}
		}
	}
}

func (c *Consumer) consume(ch *amqp.Channel) (<-chan amqp.Delivery, error) {
	if err := topology.Declare(ch); err != nil {
		return nil, err
	}
	if err := ch.Qos(c.prefetch, 0, false); err != nil {
		return nil, err
	}
	return ch.Consume(topology.Queue, consumerName, false, false, false, false, nil)
}

// giveBack ends consuming in order: no new messages, and those in hand return to the queue at once
// and uncounted. Closing the channel without it would count as a failed delivery of every message
// in hand, as a crash does (facts 1.1). On a lost channel both calls do nothing.
func giveBack(conn *amqp.Connection, ch *amqp.Channel) {
	tooLate := time.AfterFunc(giveBackTimeout, func() { rabbitmq.Close(conn) })
	defer tooLate.Stop()
	if ch.Cancel(consumerName, false) != nil {
		return
	}
	const all, multiple, requeue = 0, true, true
	_ = ch.Nack(all, multiple, requeue)
}

// handle awards the message's order and settles the message. A stop request does not interrupt it.
func (c *Consumer) handle(ctx context.Context, d amqp.Delivery) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handleTimeout)
	defer cancel()
	id, order, err := decode(d)
	awarded := false
	if err == nil {
		awarded, err = Award(ctx, c.pool, id, order)
	}
	return c.settle(d, order, awarded, err)
}

// settle is the decision. Its error ends the session.
func (c *Consumer) settle(d amqp.Delivery, order events.OrderPlaced, awarded bool, err error) error {
	orderID := strconv.FormatInt(order.OrderID, 10)
	switch {
	case refusal(err) != "": // no try will ever be better: to the DLQ, as it is
		detail := strings.TrimPrefix(err.Error(), refusal(err)+": ")
		c.say(d, slog.LevelWarn, "%s -> DLQ (%s)", refusal(err), detail)
		return d.Reject(false)

	case err == nil && awarded:
		c.say(d, slog.LevelDebug, "order %d: +%d points", order.OrderID, order.Points())
		return c.acknowledge(d, orderID)

	case err == nil: // done before; the acknowledgement did not reach the broker, or it was sent twice
		c.say(d, slog.LevelDebug, "duplicate, skipped")
		return c.acknowledge(d, orderID)

	case postgres.Unreachable(err): // not the message's fault: all goes back, free, until the database is there
		c.say(d, slog.LevelDebug, "given back: %v", err)
		return fmt.Errorf("%w: %w", errDatabaseAway, err)

	default: // counted, delayed, and after the limit dead-lettered by the broker; never a nack
		c.say(d, slog.LevelWarn, "failed: %s", reason(err))
		return d.Reject(true)
	}
}

func (c *Consumer) acknowledge(d amqp.Delivery, orderID string) error {
	crash.At(crash.LoyaltyBeforeAck, orderID)
	if err := d.Ack(false); err != nil {
		return err
	}
	crash.At(crash.LoyaltyAfterAck, orderID)
	return nil
}

// decode reads a message. Its errors are those of package events: the message is at fault.
func decode(d amqp.Delivery) (uuid.UUID, events.OrderPlaced, error) {
	id, err := uuid.Parse(d.MessageId)
	if err != nil {
		return id, events.OrderPlaced{}, fmt.Errorf("%w: message id %q is not a UUID", events.ErrMalformed, d.MessageId)
	}
	version, err := eventVersion(d.Headers)
	if err != nil {
		return id, events.OrderPlaced{}, err
	}
	order, err := events.DecodeOrderPlaced(d.Type, version, d.Body)
	return id, order, err
}

// eventVersion reads x-event-version, whichever integer type the publisher's client chose; absent means 1.
func eventVersion(headers amqp.Table) (int64, error) {
	switch v := headers["x-event-version"].(type) {
	case nil:
		return 1, nil
	case int64:
		return v, nil
	case int32:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case int8:
		return int64(v), nil
	case byte:
		return int64(v), nil
	default:
		return 0, fmt.Errorf("%w: x-event-version %v is not an integer", events.ErrMalformed, v)
	}
}

// refusal names what is wrong with a message that can never be handled; "" for any other error.
func refusal(err error) string {
	for _, e := range []error{events.ErrMalformed, events.ErrUnknownType, events.ErrUnknownVersion} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return ""
}

// reason is what a log line says of an error: the server's own words where it spoke.
func reason(err error) string {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return answer.Message
	}
	return err.Error()
}

// say logs what became of a message, under its short id.
func (c *Consumer) say(d amqp.Delivery, level slog.Level, format string, args ...any) {
	name := "message without id"
	if id, err := uuid.Parse(d.MessageId); err == nil {
		name = events.ShortID(id)
	}
	if d.Redelivered {
		name += " (redelivered)"
	}
	what := fmt.Sprintf(format, args...)
	c.log.Log(context.Background(), level, name+" "+what, "event", d.MessageId, "redelivered", d.Redelivered,
		"deliveries_failed", d.Headers["x-delivery-count"], "what", what)
}
