package main

// Does a listing say of every message what it is and why it died?

import (
	"encoding/json"
	"strings"
	"testing"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
)

func decodeRows(t *testing.T, out string) map[string]row {
	t.Helper()
	rows := map[string]row{}
	for line := range strings.Lines(out) {
		var r row
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if _, twice := rows[r.ID]; twice {
			t.Errorf("%s is listed twice", r.ID)
		}
		rows[r.ID] = r
	}
	return rows
}

func TestListSaysOfEveryMessageWhatItIsAndWhyItDied(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	broken, limit, bare := placed(1), placed(2), placed(3)
	broken.Body = []byte("not\tjson \x1b[31m" + strings.Repeat("é", 100))
	bare.MessageId = ""
	queue := s.brittle(t, topology.Exchange, "order.brittle", nil)
	s.reject(t, broken, bare)
	s.breakOn(t, queue, "order.brittle", limit)
	lab.Exec(t, s.db, `INSERT INTO loyalty.failures (consumer, message_id, attempts, last_error) VALUES ($1, $2, 6, 'no such table')`, consumerName, limit.MessageId)

	rows := decodeRows(t, s.mustDLQ(t, "list", "--json"))
	if len(rows) != 3 {
		t.Fatalf("%d rows, want 3: %v", len(rows), rows)
	}
	if r := rows[limit.MessageId]; r.Reason != "delivery_limit" || r.LastError != "no such table" || r.Deliveries != 1 || r.FirstDied == nil || r.Body != string(limit.Body) {
		t.Errorf("%+v", r)
	}
	if r := rows[broken.MessageId]; r.Reason != "rejected" || !strings.Contains(r.LastError, "not a JSON object") || r.BodyBytes != len(broken.Body) || len(r.Body) > bodyStart+2 {
		t.Errorf("%+v", r)
	}
	for id, r := range rows {
		if r.MessageID == "" && (!strings.HasPrefix(id, "@") || !strings.Contains(r.LastError, "not a UUID")) {
			t.Errorf("%+v", r)
		}
	}
	table := s.mustDLQ(t, "list")
	if lines := strings.Split(strings.TrimSpace(table), "\n"); len(lines) != 4 || !strings.HasPrefix(lines[0], "ID ") || strings.Contains(table, "\x1b") {
		t.Errorf("%q", table)
	}
	if table := s.mustDLQ(t, "list", "--reason", "delivery_limit"); strings.Count(table, "\n") != 2 || !strings.Contains(table, limit.MessageId) {
		t.Error(table)
	}
}

func TestListWorksWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.reject(t, placed(1))
	s.CutDatabase(t)
	notes, err := s.remarks(t, &ListCmd{})
	if err != nil || strings.Count(notes, "\n") != 1 || !strings.Contains(notes, "errors that the consumer noted are not shown") {
		t.Errorf("%v, %s", err, notes)
	}
}
