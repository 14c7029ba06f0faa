package main

import (
	"context"
	"fmt"
	"math"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/pkg/rabbitmq"
	"example.com/outboxlab/pkg/service"
)

// This file answers: how full are the queues, and has something been lying in the dead-letter
// queue for too long?

const (
	lookInterval = 5 * time.Second
	// warnInterval is how often the same warning is repeated.
	warnInterval = time.Hour
)

// startWatching watches the queues until the function returned is called, which waits for the end of it.
//
// It has a connection of its own. On the consumer's, whatever it does wrong would end the session, and cost
// each message in hand a failed delivery: one channel more than the account may have is such a thing. And
// it holds that connection only while the consumer has one, which may be the last one that the account gets.
func (c *Consumer) startWatching(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.watcher.Run(ctx, c.watch) // an optional one ends with ctx only
	}()
	return func() {
		cancel()
		<-done
	}
}

// watch looks at the queues until ctx or its connection ends.
func (c *Consumer) watch(ctx context.Context, life *service.Life) error {
	conn, ch, err := rabbitmq.Open(ctx, c.config.AMQPURL, "loyalty watch", func(*amqp.Channel) error { return nil })
	if err != nil {
		return service.Costly(err) // the broker writes each try into its log
	}
	defer conn.Close()
	keepOpen := context.AfterFunc(ctx, conn.Close) // ends a call that the broker does not answer
	defer keepOpen()
	defer c.metrics.queueDepth.Set(math.NaN())
	defer c.metrics.dlqDepth.Set(math.NaN())
	// To ask for the age is to have a message in hand for a moment, and a process that dies then counts as a
	// failed delivery of it, which a listing shows for ever. A process that dies does so soon after its start.
	askAge := c.started.Add(min(warnInterval, c.config.DLQRetention))
	for ctx.Err() == nil {
		if ch.IsClosed() {
			if ch, err = conn.Channel(); err != nil {
				return service.Costly(conn.Explain(err))
			}
		}
		dead, err := c.look(ch)
		switch {
		case err != nil && conn.IsClosed():
			return service.Costly(conn.Explain(err))
		case err != nil: // a queue is missing: the channel is closed
			c.log.Debug("queues not looked at: "+err.Error(), "err", err)
		default:
			life.Worked()
		}
		if dead > 0 && time.Now().After(askAge) {
			age := deadFor(ch)
			askAge = time.Now().Add(c.tellAge(age))
		}
		service.Wait(ctx, lookInterval)
	}
	return nil
}

// look measures both queues. Asking for a queue that is missing closes the channel.
func (c *Consumer) look(ch *amqp.Channel) (dead int, err error) {
	depth := func(queue string) (float64, error) {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil {
			return math.NaN(), err
		}
		return float64(q.Messages), nil
	}
	ready, err := depth(topology.Queue)
	c.metrics.queueDepth.Set(ready)
	if err != nil {
		c.metrics.dlqDepth.Set(math.NaN())
		return 0, err
	}
	parked, err := depth(topology.DeadLetterQueue)
	c.metrics.dlqDepth.Set(parked)
	if err != nil {
		return 0, err
	}
	return int(parked), nil
}

// deadFor tells how long ago the message at the head of the dead-letter queue died, 0 if there is
// none or it does not say. The message is taken and given back at once, uncounted.
func deadFor(ch *amqp.Channel) time.Duration {
	d, found, err := ch.Get(topology.DeadLetterQueue, false)
	if err != nil || !found || d.Nack(false, true) != nil {
		return 0
	}
	deaths, _ := d.Headers["x-death"].([]any)
	if len(deaths) == 0 {
		return 0
	}
	latest, _ := deaths[0].(amqp.Table)
	died, known := latest["time"].(time.Time)
	if !known {
		return 0
	}
	return time.Since(died)
}

// tellAge warns of a message that died that long ago, if it should have been dealt with, and says
// when to ask again: not before the message could have become too old.
func (c *Consumer) tellAge(age time.Duration) (again time.Duration) {
	rounded := age.Round(time.Second)
	switch {
	case age > c.config.InboxRetention:
		c.log.Warn(fmt.Sprintf("the dead-letter queue holds a message that died %v ago, longer than INBOX_RETENTION=%v: if it was handled, the inbox has forgotten it, and only the ledger's key stops a second award",
			rounded, c.config.InboxRetention), "age", age)
	case age > c.config.DLQRetention:
		c.log.Warn(fmt.Sprintf("the dead-letter queue holds a message that died %v ago, longer than DLQ_RETENTION=%v: redrive or drop it (loyalty dlq list)",
			rounded, c.config.DLQRetention), "age", age)
	default:
		return min(warnInterval, c.config.DLQRetention-age)
	}
	return warnInterval
}
