package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/pkg/inbox"
	"example.com/outboxlab/scripts/lab"
)

const rememberedFor = `INSERT INTO loyalty.processed_messages (consumer, message_id, processed_at)
	SELECT $1, uuidv7(), now() - $2::interval FROM generate_series(1, $3)`

// The inbox stays bounded, in steps that do not hold up the traffic; what is young, and what is another consumer's, stays.
func TestTheInboxForgetsInBatches(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	lab.Exec(t, s.db, rememberedFor, consumerName, 49*time.Hour, 12_000)
	lab.Exec(t, s.db, rememberedFor, consumerName, 47*time.Hour, 10)
	lab.Exec(t, s.db, rememberedFor, "loyalty.other", 49*time.Hour, 10)
	lab.Exec(t, s.db, `INSERT INTO loyalty.failures (consumer, message_id, last_error, last_seen) VALUES
		($1, uuidv7(), 'old', now() - interval '49 hours'), ($1, uuidv7(), 'young', now() - interval '47 hours')`, consumerName)
	r := s.loyalty(t, "INBOX_RETENTION", "48h", "DLQ_RETENTION", "24h")
	lab.AwaitOne(t, s.db, 20, countInbox)
	if text := lab.One[string](t, s.db, `SELECT string_agg(last_error, ' ') FROM loyalty.failures`); text != "young" {
		t.Errorf("notes left: %s", text)
	}
	for _, line := range []string{"forgot 5000 messages", "forgot 2000 messages"} {
		r.AwaitOutput(line)
	}
}

// The interleaving: two consumers prune at once. One has deleted its batch and not committed; the other does not wait
// for those rows, it leaves the work to the first.
func TestOneConsumerPrunesAtATime(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	lab.Exec(t, s.db, rememberedFor, consumerName, 2*time.Hour, 10)
	const lock = 8_170_042_020
	first, err := s.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := first.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, int64(lock)); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Exec(t.Context(), `DELETE FROM loyalty.processed_messages`); err != nil {
		t.Fatal(err)
	}
	pruned, err := inbox.Prune(t.Context(), s.db, consumerName, time.Hour)
	if err != nil || pruned != 0 {
		t.Errorf("%d pruned, %v", pruned, err)
	}
	if err := first.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pruned, err := inbox.Prune(t.Context(), s.db, consumerName, time.Hour); err != nil || pruned != 10 {
		t.Errorf("%d pruned, %v", pruned, err)
	}
}

// Some time after loyalty's start nobody has had a dead message in hand: a crash then cannot count against it.
func TestADeadMessageIsLeftAloneAfterAStart(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := s.loyalty(t)
	for n := range 3 { // at the third look, all that came of the second is over
		if err := s.ch.PublishWithContext(t.Context(), "", topology.DeadLetterQueue, true, false, placed(int64(n))); err != nil {
			t.Fatal(err)
		}
		awaitMetric(t, r, fmt.Sprintf(`loyalty_dlq_depth %d`, n+1))
	}
	for _, d := range lab.Take(t, s.ch, topology.DeadLetterQueue) {
		if returns, ok := d.Headers["x-acquired-count"]; ok {
			t.Errorf("it has been taken and given back %v times", returns)
		}
	}
}

// A message that lies in the dead-letter queue for too long is told of before the inbox forgets it, and after.
func TestAnOldDeadMessageIsToldOf(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	m := placed(1)
	m.Body = nil
	s.publish(t, m)
	r := s.loyalty(t, "DLQ_RETENTION", "1s", "INBOX_RETENTION", "720h")
	r.AwaitOutput(`holds a message that died \S+ ago, longer than DLQ_RETENTION=1s`)
	forgetful := s.loyalty(t, "DLQ_RETENTION", "1s", "INBOX_RETENTION", "1s")
	forgetful.AwaitOutput(`longer than INBOX_RETENTION=1s`)
	lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, 1)
}
