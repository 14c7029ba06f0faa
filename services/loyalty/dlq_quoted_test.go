package main

// Do the dead-letter commands print what a message holds without obeying it?

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/printable"
)

// What a message says cannot move the cursor, begin a row of its own or turn the line around; plain text stays readable.
func TestWhatAMessageSaysIsQuoted(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const tricks = "Тапсырыс \x1b[2J\nforged\u202e\u009b\u200b"
	const quoted = `Тапсырыс \x1b[2J\nforged\u202e\u009b\u200b`
	m := placed(1)
	m.MessageId, m.Type, m.ContentType, m.Body = tricks, tricks, tricks, []byte(tricks)
	m.Headers = amqp.Table{"note": tricks, "table": amqp.Table{"deep": tricks}}
	s.reject(t, m)

	table, asJSON, exported := s.mustDLQ(t, "list"), s.mustDLQ(t, "list", "--json"), s.mustDLQ(t, "export", "--all")
	if strings.Count(table, "\n") != 2 || strings.Count(table, `\x1b[2J\nforged\u202e`) != 3 {
		t.Errorf("table:\n%q", table)
	}
	if rows := decodeRows(t, asJSON); len(rows) != 1 || strings.Count(asJSON, "\n") != 1 || strings.Count(exported, "\n") != 1 {
		t.Errorf("%d rows in %q; exported %q", len(rows), asJSON, exported)
	}
	name := strings.Fields(strings.Split(table, "\n")[1])[0]
	shown := s.mustDLQ(t, "show", name)
	for _, line := range []string{"type           " + quoted, "note = " + quoted, "map[deep:" + quoted + "]"} {
		if !strings.Contains(shown, line) {
			t.Errorf("show lacks %q:\n%s", line, shown)
		}
	}
	for _, printed := range []string{table, asJSON, exported, shown} {
		if printable.Lines(printed) != printed {
			t.Errorf("printed as it came: %q", printed)
		}
	}
}
