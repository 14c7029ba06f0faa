package main

// Is the right message found, and none when that is not certain?

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/pkg/service"
	"example.com/outboxlab/scripts/lab"
)

func TestShowFindsAMessageByEveryKindOfName(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	m, bare := placed(1), placed(2)
	m.Headers = amqp.Table{"x-tenant-id": "acme", "n": int64(1) << 60}
	bare.MessageId = "17"
	s.reject(t, m, bare)
	handle := letter{amqp.Delivery{MessageId: bare.MessageId, Type: bare.Type, Body: bare.Body}}.handle()
	for name, want := range map[string]amqp.Publishing{
		m.MessageId: m, strings.ToUpper(m.MessageId): m, m.MessageId[28:]: m, handle: bare,
	} {
		out := s.mustDLQ(t, "show", name)
		if !strings.Contains(out, "\n"+string(want.Body)+"\n") || !strings.Contains(out, `exchange "orders", routing key "order.placed"`) {
			t.Errorf("%s:\n%s", name, out)
		}
	}
	if out := s.mustDLQ(t, "show", m.MessageId); !strings.Contains(out, "x-tenant-id = acme") || !strings.Contains(out, "n = 1152921504606846976") {
		t.Error(out)
	}
	if n := lab.Ready(t, s.ch, topology.DeadLetterQueue); n != 2 {
		t.Errorf("%d messages left", n)
	}
}

func TestAShortIDOfTwoMessagesIsRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	first, second := placed(1), placed(2)
	second.MessageId = uuid.NewString()[:28] + first.MessageId[28:]
	s.reject(t, first, second)
	_, err := s.dlq(t, "drop", "--yes", first.MessageId[28:])
	if err == nil || !strings.Contains(err.Error(), "not unique") || !strings.Contains(err.Error(), second.MessageId) {
		t.Error(err)
	}
	if n := lab.Ready(t, s.ch, topology.DeadLetterQueue); n != 2 {
		t.Errorf("%d messages left", n)
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

func TestWrongArgumentsAreFoundBeforeAnyConnection(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"list --reason tired", "list 670fd021",
		"show", "show 17", "show 670fd02", "show 670fd0211", "show zzzzzzzz", "show @670fd021", "show 0192f7c5-3a41-7b60-8d0e-5ab2670fd02",
		"redrive", "redrive --dry-run", "redrive --all 670fd021", "redrive --all --reason rejected", "redrive 670fd021 x", "redrive --reason tired",
		"export", "export --all 670fd021", "export x",
		"drop", "drop --yes", "drop --yes x", "drop 670fd021", "drop --all --yes", "eat",
	} {
		_, err := lab.Run(t, run, map[string]string{"DATABASE_URL": "postgres://u:p@127.0.0.1:1/d", "AMQP_URL": "amqp://u:p@127.0.0.1:1/"},
			append([]string{"dlq"}, strings.Fields(line)...)...)
		if _, usage := errors.AsType[service.UsageError](err); !usage {
			t.Errorf("dlq %s: want a usage error, got %v", line, err)
		}
	}
}
