package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
)

// Does a redriven message get a fresh start, and is none lost or removed too early?

// deathLimit is above the 15 s that six deliveries take with their pauses.
const deathLimit = 40 * time.Second

// The whole story: the ledger is broken, the message dies of it after six deliveries, somebody repairs the ledger.
func TestRedrivenAfterTheRepairAMessageIsAwardedAtTheFirstAttempt(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	lab.Exec(t, s.db, `ALTER TABLE loyalty.ledger RENAME TO broken`)
	r := s.loyalty(t)
	m := placed(1)
	s.publish(t, m)
	lab.Poll(t, deathLimit, "dead", func() (bool, error) { return lab.Ready(t, s.ch, topology.DeadLetterQueue) == 1, nil })
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

func TestWhatCannotBeDeliveredStays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*testing.T, stage) // leaves one message in the DLQ that cannot be redriven
		says    string
	}{
		"no queue is bound": {func(t *testing.T, s stage) {
			s.reject(t, placed(1))
			if err := s.ch.QueueUnbind(topology.Queue, "order.placed", topology.Exchange, nil); err != nil {
				t.Fatal(err)
			}
		}, "no queue is bound"},
		"no queue is bound, and no id": {func(t *testing.T, s stage) {
			m := placed(1)
			m.MessageId = ""
			s.reject(t, m)
			if err := s.ch.QueueUnbind(topology.Queue, "order.placed", topology.Exchange, nil); err != nil {
				t.Fatal(err)
			}
		}, "no queue is bound"},
		"the queue is full": {func(t *testing.T, s stage) {
			queue := s.brittle(t, topology.Exchange, "order.brittle", amqp.Table{"x-max-length": int64(1)})
			s.breakOn(t, queue, "order.brittle", placed(1))
			s.publishUntilRefused(t, "order.brittle")
		}, "refused by the broker"},
		"no exchange": {func(t *testing.T, s stage) {
			if err := s.ch.ExchangeDeclare("old", amqp.ExchangeTopic, true, false, false, false, nil); err != nil {
				t.Fatal(err)
			}
			queue := s.brittle(t, "old", "order.brittle", nil)
			if _, err := s.ch.PublishWithDeferredConfirm("old", "order.brittle", true, false, placed(1)); err != nil {
				t.Fatal(err)
			}
			lab.AwaitReady(t, s.ch, queue, 1)
			s.rejectHead(t, queue, false)
			lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, 1)
			if err := s.ch.ExchangeDelete("old", false, false); err != nil {
				t.Fatal(err)
			}
		}, `the exchange "old", where it came from, does not exist`},
		"it never died": {func(t *testing.T, s stage) { s.fill(t, 1) }, "no x-death header"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			c.prepare(t, s)
			notes, err := s.remarks(t, &RedriveCmd{All: true})
			if err == nil || !strings.Contains(err.Error(), "1 message not redriven") || !strings.Contains(notes, c.says) {
				t.Errorf("%v; %s", err, notes)
			}
			if n := lab.Ready(t, s.ch, topology.DeadLetterQueue); n != 1 {
				t.Errorf("%d messages in the DLQ", n)
			}
		})
	}
}

// publishUntilRefused fills a queue; how far it overshoots its limit is the broker's affair.
func (s stage) publishUntilRefused(t *testing.T, key string) {
	t.Helper()
	lab.Poll(t, awaitLimit, "full", func() (bool, error) {
		confirm, err := s.ch.PublishWithDeferredConfirm(topology.Exchange, key, true, false, placed(99))
		if err != nil {
			return false, err
		}
		return !confirm.Wait(), nil
	})
}

// One that cannot be delivered does not keep the others from it.
func TestTheOthersAreRedrivenAllTheSame(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	queue := s.brittle(t, topology.Exchange, "order.brittle", nil)
	s.breakOn(t, queue, "order.brittle", placed(1))
	s.reject(t, placed(2), placed(3))
	if err := s.ch.QueueUnbind(queue, "order.brittle", topology.Exchange, nil); err != nil {
		t.Fatal(err)
	}
	if out, err := s.dlq(t, "redrive", "--all"); err == nil || out != "2 messages redriven\n" {
		t.Errorf("%v, %s", err, out)
	}
	lab.AwaitReady(t, s.ch, topology.Queue, 2)
	lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, 1)
}

func TestRedriveByReasonLeavesTheRest(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	queue := s.brittle(t, topology.Exchange, "order.brittle", nil)
	s.breakOn(t, queue, "order.brittle", placed(1))
	s.reject(t, placed(2))
	s.mustDLQ(t, "redrive", "--reason", "rejected")
	lab.AwaitReady(t, s.ch, topology.Queue, 1)
	s.mustDLQ(t, "redrive", "--reason", "expired")
	lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, 1)
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

func TestADryRunChangesNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	m := placed(1)
	s.reject(t, m)
	out := s.mustDLQ(t, "redrive", "--all", "--dry-run")
	if !strings.Contains(out, m.MessageId+` would go to exchange "orders" with key "order.placed"`) || !strings.Contains(out, "1 message would be redriven") {
		t.Error(out)
	}
	if n := lab.Ready(t, s.ch, topology.Queue); n != 0 {
		t.Errorf("%d messages published", n)
	}
	dead := lab.Take(t, s.ch, topology.DeadLetterQueue)
	if len(dead) != 1 || dead[0].Headers["x-delivery-count"] != int64(1) {
		t.Errorf("%v", dead)
	}
}

func TestTwoRedrivesAtOnceLoseNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	want := map[string]int{}
	var messages []amqp.Publishing
	for order := range int64(100) {
		m := placed(order + 1)
		messages, want[m.MessageId] = append(messages, m), 1
	}
	s.reject(t, messages...)
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			if _, err := s.dlq(t, "redrive", "--all"); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	got := map[string]int{}
	for _, d := range lab.Take(t, s.ch, topology.Queue) {
		got[d.MessageId]++
	}
	if !maps.Equal(got, want) || lab.Ready(t, s.ch, topology.DeadLetterQueue) != 0 {
		t.Errorf("%d of %d different messages redriven", len(got), len(want))
	}
}

func TestOfNamesThatAreNotAllThereNoneIsRedriven(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	m := placed(1)
	s.reject(t, m)
	for _, command := range [][]string{{"redrive"}, {"drop", "--yes"}, {"export"}} {
		out, err := s.dlq(t, append(command, m.MessageId, "00000000")...)
		if err == nil || !strings.Contains(err.Error(), "no such message, nothing was done: 00000000") || strings.Contains(out, m.MessageId) {
			t.Errorf("%v: %v, %s", command, err, out)
		}
	}
	if n := lab.Ready(t, s.ch, topology.DeadLetterQueue); n != 1 {
		t.Errorf("%d messages in the DLQ", n)
	}
}

func TestDropRemovesWhatWasNamedAndAgreedTo(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	first, second := placed(1), placed(2)
	s.reject(t, first, second)
	for _, answer := range []string{"n\n", "", "yes\n"} {
		before := lab.Ready(t, s.ch, topology.DeadLetterQueue)
		var out strings.Builder
		ask := func(ctx context.Context, _ string) (bool, error) { return readAnswer(ctx, strings.NewReader(answer)) }
		err := (&DropCmd{IDs: []string{first.MessageId}}).run(t.Context(), s.config(t), console{out: &out, notes: t.Output(), ask: ask})
		agreed := answer == "yes\n"
		if (err == nil) != agreed || agreed != (out.String() == "1 message dropped\n") {
			t.Errorf("answered %q: %v, %s", answer, err, out.String())
		}
		if !agreed && lab.Ready(t, s.ch, topology.DeadLetterQueue) != before {
			t.Errorf("answered %q, and something is gone", answer)
		}
	}
	if left := lab.Take(t, s.ch, topology.DeadLetterQueue); len(left) != 1 || left[0].MessageId != second.MessageId {
		t.Errorf("left: %v", left)
	}
}
