package main

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
)

// allowAnyTime takes away the constraints that keep a hand from typing a time without end.
const allowAnyTime = `ALTER TABLE orders.outbox DROP CONSTRAINT created_at_is_finite, DROP CONSTRAINT retry_at_is_finite, DROP CONSTRAINT locked_until_is_finite`

// oddTimes are times that PostgreSQL knows, and RFC 3339, JSON or a counter of seconds do not.
var oddTimes = []string{"infinity", "-infinity", "294276-12-31 23:59:59Z", "10000-01-01 00:00:00Z", "4713-01-01 00:00:00Z BC", "1969-12-31 23:59:59Z", "0001-12-31 00:00:00Z BC"}

// A row with an odd time is published like any other, with the nearest time that the message can carry.
func TestARowWithAnOddTimeIsPublished(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"tx", "lease"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := lab.ForTest(t)
			db, ch := l.Owner(t), l.Channel(t)
			lab.Exec(t, db, allowAnyTime)
			for _, at := range oddTimes {
				lab.Exec(t, db, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload, created_at) VALUES ('order', $1, 'order.placed', '{}', $1::text::timestamptz)`, at)
			}
			lab.Exec(t, db, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload, retry_at, locked_until) VALUES ('order', 'due', 'order.placed', '{}', '-infinity', '-infinity')`)
			lab.Exec(t, db, insertEvents, 3)
			lab.Start(t, run, environment(l, "RELAY_CLAIM", mode))
			lab.AwaitOne(t, db, 0, countPending)
			taken := lab.Take(t, ch, topology.Queue)
			if len(taken) != len(oddTimes)+4 {
				t.Errorf("%d messages", len(taken))
			}
			for _, m := range taken {
				at, err := time.Parse(time.RFC3339, m.Headers["x-event-time"].(string))
				if err != nil || (at.Unix() >= 0) == m.Timestamp.IsZero() {
					t.Errorf("%v: header %v, property %v, %v", m.Headers["x-aggregate-id"], m.Headers["x-event-time"], m.Timestamp, err)
				}
			}
		})
	}
}

// A dead event with an odd time is listed, in both forms, and so are the others.
func TestDeadEventsWithOddTimesAreListed(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	lab.Exec(t, db, allowAnyTime)
	for _, at := range append(oddTimes, "2026-01-02 03:04:05Z") {
		lab.Exec(t, db, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload, created_at, dead_lettered_at)
			VALUES ('order', $1, 'order.placed', '{}', $1::text::timestamptz, $1::text::timestamptz)`, at)
	}
	table, err := lab.Run(t, run, environment(l), "dead", "list")
	if err != nil || strings.Count(table, "\n") != len(oddTimes)+2 || !strings.Contains(table, "2026-01-02 03:04:05") || !strings.Contains(table, "9999-12-31 23:59:59") {
		t.Errorf("%s, %v", table, err)
	}
	list, err := lab.Run(t, run, environment(l), "dead", "list", "--json")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for lines := bufio.NewScanner(strings.NewReader(list)); lines.Scan(); n++ {
		var d deadEvent
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil || d.DiedAt.IsZero() && d.AggregateID == "infinity" {
			t.Errorf("%s: %v", lines.Text(), err)
		}
	}
	if n != len(oddTimes)+1 {
		t.Errorf("%d lines", n)
	}
}

// The age of the oldest pending event is never negative, nor without end, and a time in the future does not hide that a
// row waits.
func TestTheAgeOfTheOldestIsSensible(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	lab.Exec(t, db, allowAnyTime)
	const hour = 3600
	hourOld := lab.One[string](t, db, `SELECT uuidv7(interval '-1 hour')::text`)
	random := "4af04c3f-6f3c-4a8a-8a52-6a54e2f58a1d"
	for _, c := range []struct {
		created, event string
		from, to       float64
	}{
		{"2126-01-01", hourOld, hour, 2 * hour},
		{"infinity", hourOld, hour, 2 * hour},
		{"infinity", random, 0, 0},
		{"294276-12-31", "ffffffff-ffff-7000-8000-000000000000", 0, 0},
		{"-infinity", random, 50 * 365 * 24 * hour, 200 * 365 * 24 * hour},
		{"4713-01-01 BC", random, 50 * 365 * 24 * hour, 200 * 365 * 24 * hour},
	} {
		lab.Exec(t, db, `DELETE FROM orders.outbox`)
		lab.Exec(t, db, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload, created_at, event_id) VALUES ('order', '1', 'order.placed', '{}', $1::text::timestamptz, $2)`, c.created, c.event)
		lab.Exec(t, db, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload, published_at) SELECT 'order', '1', 'order.placed', '{}', at::timestamptz FROM unnest('{infinity, -infinity, 294276-12-31}'::text[]) at`)
		relay := newTestRelay(t, l, settings{claim: "tx"})
		b, err := readBacklog(t.Context(), relay.pool)
		if err != nil || b.OldestSeconds < c.from || b.OldestSeconds > c.to {
			t.Errorf("created %s, event %s: %v s, %v", c.created, c.event, b.OldestSeconds, err)
		}
		for _, args := range [][]string{{"status"}, {"status", "--json"}} {
			printed, err := lab.Run(t, run, environment(l), args...)
			if err != nil || strings.Contains(printed, "-") || len(args) > 1 && !strings.Contains(printed, `"publishedLastMinute":0`) {
				t.Errorf("created %s: %s, %v", c.created, printed, err)
			}
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(backlogCollector{relay.pool})
		if families, err := registry.Gather(); err != nil || len(families) != 4 {
			t.Errorf("created %s: %d metrics, %v", c.created, len(families), err)
		}
	}
}
