package main

// How does a test put messages into the dead-letter queue, and run a command on them?

import (
	"maps"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/pkg/service"
	"example.com/outboxlab/scripts/lab"
)

// dlq runs `loyalty dlq` and returns what it printed; its remarks go to the test's own standard error.
func (s stage) dlq(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return lab.Run(t, run, map[string]string{"DATABASE_URL": s.LoyaltyURL, "AMQP_URL": s.AMQPURL}, append([]string{"dlq"}, args...)...)
}

// mustDLQ is dlq that succeeds.
func (s stage) mustDLQ(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.dlq(t, args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return out
}

// remarks runs a command with a console of its own, and returns what it said besides its results.
func (s stage) remarks(t *testing.T, command dlqCommand) (string, error) {
	t.Helper()
	var out, notes strings.Builder
	err := command.run(t.Context(), s.config(t), console{out: &out, notes: &notes})
	return notes.String(), err
}

func (s stage) config(t *testing.T) Config {
	t.Helper()
	env := map[string]string{"DATABASE_URL": s.LoyaltyURL, "AMQP_URL": s.AMQPURL}
	config, err := service.Load[Config](func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// reject lets messages die: published, taken and rejected, without a consumer.
func (s stage) reject(t *testing.T, messages ...amqp.Publishing) {
	t.Helper()
	before := lab.Ready(t, s.ch, topology.DeadLetterQueue)
	for _, m := range messages {
		s.publish(t, m)
		s.rejectHead(t, topology.Queue, false)
	}
	lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, before+len(messages))
}

func (s stage) rejectHead(t *testing.T, queue string, requeue bool) {
	t.Helper()
	d, ok, err := s.ch.Get(queue, false)
	if err != nil || !ok {
		t.Fatalf("get from %s: %v, %v", queue, ok, err)
	}
	if err := d.Reject(requeue); err != nil {
		t.Fatal(err)
	}
}

// brittle is a queue like the real one that forgives no failed delivery, with arguments of the test's.
func (s stage) brittle(t *testing.T, exchange, key string, more amqp.Table) string {
	t.Helper()
	args := amqp.Table{
		amqp.QueueTypeArg: amqp.QueueTypeQuorum, "x-delivery-limit": int64(0),
		"x-dead-letter-exchange": topology.DeadLetterExchange, "x-dead-letter-routing-key": topology.Queue,
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	}
	maps.Copy(args, more)
	if _, err := s.ch.QueueDeclare("brittle", true, false, false, false, args); err != nil {
		t.Fatal(err)
	}
	if err := s.ch.QueueBind("brittle", key, exchange, false, nil); err != nil {
		t.Fatal(err)
	}
	return "brittle"
}

// breakOn publishes m with that key to the brittle queue and lets its only delivery fail.
func (s stage) breakOn(t *testing.T, queue, key string, m amqp.Publishing) {
	t.Helper()
	before := lab.Ready(t, s.ch, topology.DeadLetterQueue)
	lab.Publish(t, s.ch, key, m)
	s.rejectHead(t, queue, true)
	lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, before+1)
}

// fill puts messages into the dead-letter queue that did not die.
func (s stage) fill(t *testing.T, n int) {
	t.Helper()
	var last *amqp.DeferredConfirmation
	for i := range n {
		var err error
		last, err = s.ch.PublishWithDeferredConfirmWithContext(t.Context(), "", topology.DeadLetterQueue, true, false, placed(int64(i+1)))
		if err != nil {
			t.Fatal(err)
		}
	}
	if acked, err := last.WaitContext(t.Context()); err != nil || !acked {
		t.Fatal(acked, err)
	}
	lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, n)
}
