package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// This file answers: what does a dead message tell about itself? The broker writes into its headers
// how it died (facts 1.5): x-death has one entry per queue and reason, the newest first.

// letter is a dead message, as it lies in the dead-letter queue.
type letter struct{ amqp.Delivery }

// death is an entry of x-death.
type death struct {
	reason   string // rejected, delivery_limit, expired or maxlen
	time     time.Time
	exchange string
	keys     []any // routing keys: the one published with, then those of a CC header
}

// lastDeath is the newest, by which the message came here. A message that was put into the queue by
// hand has none: ok is false.
func (l letter) lastDeath() (d death, ok bool) {
	all, _ := l.Headers["x-death"].([]any)
	if len(all) == 0 {
		return death{}, false
	}
	newest, ok := all[0].(amqp.Table)
	d.reason, _ = newest["reason"].(string)
	d.time, _ = newest["time"].(time.Time)
	d.exchange, _ = newest["exchange"].(string)
	d.keys, _ = newest["routing-keys"].([]any)
	return d, ok
}

// firstDied is when the message first died, since it was last redriven; whole seconds. Zero if it never did.
func (l letter) firstDied() time.Time {
	var first time.Time
	all, _ := l.Headers["x-death"].([]any)
	for _, entry := range all {
		table, _ := entry.(amqp.Table)
		if at, ok := table["time"].(time.Time); ok && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

var errNoOrigin = errors.New("no x-death header, so nobody knows where it came from (export it, and publish it by hand)")

// origin is the exchange and the routing key with which the message came into the queue it died in.
func (l letter) origin() (exchange, key string, err error) {
	d, died := l.lastDeath()
	if !died || len(d.keys) == 0 {
		return "", "", errNoOrigin
	}
	key, ok := d.keys[0].(string)
	if !ok {
		return "", "", errNoOrigin
	}
	return d.exchange, key, nil
}

// failedDeliveries is the broker's count; 0 if it counted none.
func (l letter) failedDeliveries() int64 {
	n, _ := l.Headers["x-delivery-count"].(int64)
	return n
}

// ownHeaders are the headers that the publisher set: all but those in which the broker keeps count. On
// a redrive a stale count would make the message look failed before its first delivery (rebus-org/Rebus.RabbitMq#114).
func (l letter) ownHeaders() amqp.Table {
	own := maps.Clone(l.Headers)
	maps.DeleteFunc(own, func(name string, _ any) bool {
		return name == "x-death" || name == "x-delivery-count" || name == "x-acquired-count" ||
			strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
	})
	return own
}

// uuid is the message id; false if it has none, or one that is no UUID.
func (l letter) uuid() (uuid.UUID, bool) {
	id, err := uuid.Parse(l.MessageId)
	return id, err == nil
}

// fingerprint tells messages apart whatever their id, and stays the same however often they die.
func (l letter) fingerprint() [sha256.Size]byte {
	return fingerprint(l.MessageId, l.Type, l.ownHeaders(), l.Body)
}

func fingerprint(messageID, messageType string, headers amqp.Table, body []byte) [sha256.Size]byte {
	head := fmt.Appendf(nil, "%q %q %v\n", messageID, messageType, map[string]any(headers)) // fmt sorts maps
	return sha256.Sum256(append(head, body...))
}

// handle names a message that has no usable id, e.g. @1f0c22ab9d41. Copies of a message share it.
func (l letter) handle() string {
	sum := l.fingerprint()
	return "@" + hex.EncodeToString(sum[:handleDigits/2])
}

// name is what commands call the message: its id, or else its handle.
func (l letter) name() string {
	if id, ok := l.uuid(); ok {
		return id.String()
	}
	return l.handle()
}

// why says what is wrong with a message that can never be handled, in the consumer's own words; "" for another.
func (l letter) why() string {
	if _, err := decode(l.Delivery); refusal(err) != "" {
		return err.Error()
	}
	return ""
}
