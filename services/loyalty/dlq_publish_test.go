package main

// Does what cannot be delivered stay, and only that?

import (
	"maps"
	"strings"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
)

func TestWhatCannotBeDeliveredStays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*testing.T, stage) // leaves one message in the DLQ that cannot be redriven
		says    string
	}{
		"no queue is bound": {func(t *testing.T, s stage) {
			t.Helper()
			s.reject(t, placed(1))
			if err := s.ch.QueueUnbind(topology.Queue, "order.placed", topology.Exchange, nil); err != nil {
				t.Fatal(err)
			}
		}, "no queue is bound"},
		"no queue is bound, and no id": {func(t *testing.T, s stage) {
			t.Helper()
			m := placed(1)
			m.MessageId = ""
			s.reject(t, m)
			if err := s.ch.QueueUnbind(topology.Queue, "order.placed", topology.Exchange, nil); err != nil {
				t.Fatal(err)
			}
		}, "no queue is bound"},
		"the queue is full": {func(t *testing.T, s stage) {
			t.Helper()
			queue := s.brittle(t, topology.Exchange, "order.brittle", amqp.Table{"x-max-length": int64(1)})
			s.breakOn(t, queue, "order.brittle", placed(1))
			s.publishUntilRefused(t, "order.brittle")
		}, "refused by the broker"},
		"no exchange": {func(t *testing.T, s stage) {
			t.Helper()
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
		"it never died": {func(t *testing.T, s stage) {
			t.Helper()
			s.fill(t, 1)
		}, "no x-death header"},
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
