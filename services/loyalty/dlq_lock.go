package main

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/pkg/service"
)

// This file answers: what if two dlq commands run at once? What one holds the other cannot see: it
// would list half a queue, or find "no such message". So they take turns. The lock is a queue
// that is exclusive to one connection: it cannot outlive the command, however that ends.

const (
	lockQueue = topology.DeadLetterQueue + ".lock"
	// lockLimit is how long a command waits for its turn. Another may redrive very many messages, or be
	// exporting into a pager.
	lockLimit = time.Minute
	lockPause = 100 * time.Millisecond
)

// lock waits for this command's turn, for a minute at most. It is kept until the connection ends.
func (q *deadLetters) lock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lockLimit)
	defer cancel()
	for waited := false; ; waited = true {
		free, err := q.tryLock()
		if free || err != nil {
			return err
		}
		if !waited {
			q.note("another dlq command has the messages in hand: waiting for it")
		}
		service.Wait(ctx, lockPause)
		if ctx.Err() != nil {
			return errors.New("another dlq command has the messages in hand: try again when it is done")
		}
	}
}

func (q *deadLetters) tryLock() (bool, error) {
	ch, err := q.conn.Channel() // of its own: a refusal closes it
	if err != nil {
		return false, err
	}
	const durable, autoDelete, exclusive, noWait = false, false, true, false
	_, err = ch.QueueDeclare(lockQueue, durable, autoDelete, exclusive, noWait, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeClassic})
	if refused, ok := errors.AsType[*amqp.Error](err); ok && refused.Code == amqp.ResourceLocked {
		return false, nil
	}
	return err == nil, err
}
