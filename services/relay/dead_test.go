package main

// Does the list of dead events print what a row holds without obeying it?

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"example.com/outboxlab/pkg/printable"
	"example.com/outboxlab/scripts/lab"
)

// What a row says cannot move the cursor, begin a row of its own or turn the line around; plain text stays readable.
func TestWhatADeadEventSaysIsQuoted(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	const tricks = "Тапсырыс \x1b[2J\n2\tforged\u202e\u009b\u200b"
	const quoted = `Тапсырыс \x1b[2J\n2\tforged\u202e\u009b\u200b`
	lab.Exec(t, l.Owner(t), `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload, last_error, dead_lettered_at)
		VALUES ($1, $1, $1, '{}', $1 || repeat('ж', 1000000), now())`, tricks)

	table, err := lab.Run(t, run, environment(l), "dead", "list")
	if err != nil || strings.Count(table, "\n") != 2 || strings.Count(table, quoted) != 4 || len(table) > 2000 || printable.Lines(table) != table {
		t.Errorf("%v, %.3000q", err, table)
	}
	asJSON, err := lab.Run(t, run, environment(l), "dead", "list", "--json")
	var row struct{ Type, LastError string }
	if err := errors.Join(err, json.Unmarshal([]byte(asJSON), &row)); err != nil {
		t.Fatal(err)
	}
	if strings.Count(asJSON, "\n") != 1 || printable.Lines(asJSON) != asJSON || row.Type != tricks || len(row.LastError) < 2000000 {
		t.Errorf("%.3000q", asJSON)
	}
}
