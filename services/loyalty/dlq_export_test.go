package main

// Does an export have every byte, and does drop remove only what was agreed to?

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
)

func TestExportHasEveryByte(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	text, binary := placed(1), placed(2)
	text.Headers = amqp.Table{"x-tenant-id": "<acme>"}
	binary.Body = []byte("\x00\xff\xfe")
	s.reject(t, text, binary)
	file := filepath.Join(t.TempDir(), "dead.jsonl")
	s.mustDLQ(t, "export", "--all", "--to", file)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if printed := s.mustDLQ(t, "export", text.MessageId, binary.MessageId); printed != string(content) {
		t.Errorf("by name:\n%s\n--all:\n%s", printed, content)
	}
	for line := range strings.Lines(string(content)) {
		var e exported
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		switch e.ID {
		case text.MessageId:
			if *e.Body != string(text.Body) || e.Headers["x-tenant-id"] != "<acme>" || e.Exchange != "orders" || e.RoutingKey != "order.placed" || e.Properties.DeliveryMode != amqp.Persistent {
				t.Errorf("%s", line)
			}
		case binary.MessageId:
			if e.Body != nil || string(e.BodyBase64) != string(binary.Body) {
				t.Errorf("%s", line)
			}
		}
	}
	if _, err := s.dlq(t, "export", "--all", "--to", file); !errors.Is(err, os.ErrExist) {
		t.Errorf("exported over an export: %v", err)
	}
	if n := lab.Ready(t, s.ch, topology.DeadLetterQueue); n != 2 {
		t.Errorf("%d messages left", n)
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
