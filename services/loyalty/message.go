package main

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events"
)

// This file answers: what does a message say, and what does an error say about it?

// delivery is a message that the broker has handed out, what it says, and what came of handling it.
type delivery struct {
	amqp.Delivery
	Message
	awarded bool
	err     error
}

// read reads a message. Its errors are those of package events: the message is at fault. The id is
// then known all the same, if the message has one.
func read(d amqp.Delivery) delivery {
	message, err := decode(d)
	return delivery{Delivery: d, Message: message, err: err}
}

func decode(d amqp.Delivery) (Message, error) {
	id, err := uuid.Parse(d.MessageId)
	if err != nil || id == uuid.Nil { // the nil UUID means "no id": two such messages are not copies of one
		return Message{}, fmt.Errorf("%w: message id %q is not a UUID", events.ErrMalformed, d.MessageId)
	}
	version, err := eventVersion(d.Headers)
	if err != nil {
		return Message{ID: id}, err
	}
	order, err := events.DecodeOrderPlaced(d.Type, version, d.Body)
	return Message{ID: id, Order: order}, err
}

// failures is how many deliveries of the message the broker has counted as failed.
func (d delivery) failures() int64 {
	n, _ := d.Headers["x-delivery-count"].(int64) // absent = 0 (facts 1.2)
	return n
}

// suspect tells whether the message has been delivered in vain before: it may be what killed the process.
func (d delivery) suspect() bool { return d.failures() > 0 }

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
		return 0, fmt.Errorf("%w: x-event-version %.40q is not an integer", events.ErrMalformed, fmt.Sprint(v))
	}
}

// refusal names what is wrong with a message that can never be handled; "" for any other error.
func refusal(err error) string {
	for _, e := range []error{events.ErrMalformed, events.ErrUnknownType, events.ErrUnknownVersion, errConflict} {
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
