package main

// Does a redriven message get a fresh start, and come back if that does not help?

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
)

// The whole story: the ledger is broken, the message dies of it after six deliveries, somebody repairs the ledger.
func TestRedrivenAfterTheRepairAMessageIsAwardedAtTheFirstAttempt(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	lab.Exec(t, s.db, `ALTER TABLE loyalty.ledger RENAME TO broken`)
	r := s.loyalty(t)
	m := placed(1)
	s.publish(t, m)
	lab.Poll(t, awaitLimit, "dead", func() (bool, error) { return lab.Ready(t, s.ch, topology.DeadLetterQueue) == 1, nil })
	if out := s.mustDLQ(t, "list"); !strings.Contains(out, "delivery_limit") || !strings.Contains(out, "  6  ") || !strings.Contains(out, `relation "loyalty.ledger" does not exist`) {
		t.Error(out)
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	lab.Exec(t, s.db, `ALTER TABLE loyalty.broken RENAME TO ledger`)
	if out := s.mustDLQ(t, "redrive", m.MessageId[28:]); out != "1 message redriven\n" {
		t.Error(out)
	}
	d, ok, err := s.ch.Get(topology.Queue, false)
	if err != nil || !ok || len(d.Headers) != 0 || d.Redelivered {
		t.Errorf("not like new: %v %v %v", ok, err, d.Headers)
	}
	if err := d.Nack(false, true); err != nil {
		t.Fatal(err)
	}
	again := s.loyalty(t)
	lab.AwaitOne(t, s.db, 1, countAwards)
	s.awaitIdle(t, again)
	if n := lab.Ready(t, s.ch, topology.DeadLetterQueue); n != 0 {
		t.Errorf("%d in the DLQ", n)
	}
}

func TestARedrivenMessageIsTheMessageThatWasSent(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	m := placed(1)
	m.Headers = amqp.Table{"x-event-version": int64(1), "x-tenant-id": "acme", "traceparent": "00-1-2-01", "nested": amqp.Table{"list": []any{int32(1), "two", true}}}
	m.CorrelationId, m.ReplyTo, m.AppId, m.ContentEncoding, m.Priority, m.Timestamp = "c", "r", "a", "identity", 3, time.Unix(1_700_000_000, 0)
	m.Body = []byte("{\"orderId\": 1 ,\n\"customerId\":101,\"totalKzt\":100}\x00\xff")
	s.reject(t, m)
	s.mustDLQ(t, "redrive", "--all")
	lab.AwaitReady(t, s.ch, topology.Queue, 1)
	d := lab.Take(t, s.ch, topology.Queue)[0]
	if !bytes.Equal(d.Body, m.Body) || !reflect.DeepEqual(d.Headers, m.Headers) {
		t.Errorf("%q %v", d.Body, d.Headers)
	}
	got := amqp.Publishing{
		ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode, Priority: d.Priority,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type, AppId: d.AppId,
		Headers: m.Headers, Body: m.Body,
	}
	if !reflect.DeepEqual(got, m) {
		t.Errorf("%+v, want %+v", got, m)
	}
}

// It fails again, dies again, and is in the DLQ again, with one death to its name (rabbitmq/rabbitmq-server#11331).
func TestRedrivenWhileStillBrokenAMessageComesBack(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	m := placed(1)
	m.Body = []byte("not json")
	r := s.loyalty(t)
	s.publish(t, m)
	for range 3 {
		lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, 1)
		s.mustDLQ(t, "redrive", m.MessageId)
	}
	lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, 1)
	s.awaitIdle(t, r)
	dead := lab.Take(t, s.ch, topology.DeadLetterQueue)
	if len(dead) != 1 || !bytes.Equal(dead[0].Body, m.Body) {
		t.Fatalf("%v", dead)
	}
	if deaths, _ := dead[0].Headers["x-death"].([]any); len(deaths) != 1 || deaths[0].(amqp.Table)["count"] != int64(1) {
		t.Errorf("%v", deaths)
	}
}

// All of them die again while the command still runs, and arrive behind those that it has yet to read.
func TestRedriveEndsThoughEverythingComesBack(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const many = windowSize + 50
	r := s.loyalty(t)
	for order := range int64(many) {
		m := placed(order + 1)
		m.Body = []byte("not json")
		s.publish(t, m)
	}
	lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, many)
	if out := s.mustDLQ(t, "redrive", "--all"); out != fmt.Sprintf("%d messages redriven\n", many) {
		t.Error(out)
	}
	lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, many)
	s.awaitIdle(t, r)
}

// The inbox has been pruned since. The ledger's key is what stops a second award (Particular/docs.particular.net#3947).
func TestRedrivenAfterTheInboxForgotAnOrderIsNotAwardedTwice(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	m := placed(1)
	s.reject(t, m)
	r := s.loyalty(t)
	s.publish(t, m)
	lab.AwaitOne(t, s.db, 1, countAwards)
	lab.Exec(t, s.db, `DELETE FROM loyalty.processed_messages`)
	s.mustDLQ(t, "redrive", "--all")
	lab.AwaitOne(t, s.db, 1, countInbox)
	s.awaitIdle(t, r)
	if n := lab.One[int64](t, s.db, countAwards); n != 1 {
		t.Errorf("%d awards", n)
	}
	if n := lab.Ready(t, s.ch, topology.DeadLetterQueue); n != 0 {
		t.Errorf("%d in the DLQ", n)
	}
}
