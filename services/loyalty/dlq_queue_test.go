package main

// Does reading see every message, and leave everything as it was?

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
)

// More messages than the broker passes on in one go: what is given back as the last thing before the end of the session
// would be counted as failed, if nobody waited for the broker to have it.
func TestReadingLosesAndCountsNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const many = 45*windowSize + 1
	s.fill(t, many)
	notes, err := s.remarks(t, &ListCmd{JSON: true})
	if err != nil || !strings.Contains(notes, " of 11251 messages\n") {
		t.Errorf("no progress: %v, %s", err, notes)
	}
	lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, many)
	seen := map[string]bool{}
	q := &deadLetters{console: console{notes: t.Output()}, ch: s.ch}
	if err := q.scan(t.Context(), func(letters []letter) error {
		for _, l := range letters {
			seen[l.MessageId] = true
			if n := l.Headers["x-delivery-count"]; n != nil {
				return fmt.Errorf("%s has been counted: %v", l.MessageId, n)
			}
		}
		return nil
	}); err != nil || len(seen) != many {
		t.Errorf("%d of %d seen: %v", len(seen), many, err)
	}
}

func TestAskedToStopACommandGivesEverythingBack(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const many = 3 * windowSize
	s.fill(t, many)
	ctx, stop := context.WithCancel(t.Context())
	q, err := openDeadLetters(ctx, s.config(t).AMQPURL, console{notes: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	err = q.scan(ctx, func([]letter) error {
		stop()
		return nil
	})
	q.close()
	if err == nil || err.Error() != "interrupted" {
		t.Error(err)
	}
	lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, many)
	for _, d := range lab.Take(t, s.ch, topology.DeadLetterQueue) {
		if n := d.Headers["x-delivery-count"]; n != nil {
			t.Fatalf("counted: %v", n)
		}
	}
}

func TestCommandsAtOnceTakeTurnsAndSeeAll(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fill(t, 2*windowSize)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			out, err := s.dlq(t, "list", "--json")
			if rows := decodeRows(t, out); err != nil || len(rows) != 2*windowSize {
				t.Errorf("%d rows, %v", len(rows), err)
			}
		})
	}
	group.Wait()
}

func TestWhatSomebodyElseHasInHandIsMissedAndSaid(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fill(t, 3)
	if _, ok, err := s.ch.Get(topology.DeadLetterQueue, false); err != nil || !ok {
		t.Fatal(ok, err)
	}
	notes, err := s.remarks(t, &ListCmd{})
	if err != nil || !strings.Contains(notes, "somebody else is reading") || !strings.Contains(notes, "messages: 1)") {
		t.Errorf("%v, %s", err, notes)
	}
}

func TestSomebodyWhoTakesALookIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fill(t, 3)
	d, ok, err := s.ch.Get(topology.DeadLetterQueue, false)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	list := lab.Start(t, run, map[string]string{"DATABASE_URL": s.LoyaltyURL, "AMQP_URL": s.AMQPURL}, "dlq", "list", "--json")
	s.awaitLocked(t)
	if err := d.Nack(false, true); err != nil {
		t.Fatal(err)
	}
	list.AwaitOutput(`(.+\n){3}`)
}

// awaitLocked waits until a dlq command has its turn: its lock queue exists, whether or not somebody else may look at it.
func (s stage) awaitLocked(t *testing.T) {
	t.Helper()
	conn, err := amqp.Dial(s.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	lab.Poll(t, awaitLimit, "a dlq command at work", func() (bool, error) {
		ch, err := conn.Channel()
		if err != nil {
			return false, err
		}
		defer func() { _ = ch.Close() }()
		_, err = ch.QueueDeclarePassive(lockQueue, false, false, false, false, nil)
		refused, ok := errors.AsType[*amqp.Error](err)
		if ok && refused.Code == amqp.NotFound {
			return false, err
		}
		return err == nil || ok && refused.Code == amqp.ResourceLocked, nil
	})
}

func TestAMissingQueueIsOneClearLine(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	if _, err := s.ch.QueueDelete(topology.DeadLetterQueue, false, false, false); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"list"}, {"redrive", "--all"}, {"show", "670fd021"}} {
		_, err := s.dlq(t, args...)
		if err == nil || !strings.Contains(err.Error(), "no queue "+topology.DeadLetterQueue) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestAMissingBrokerIsOneClearLine(t *testing.T) {
	t.Parallel()
	_, err := lab.Run(t, run, map[string]string{"DATABASE_URL": "postgres://u:p@127.0.0.1:1/d", "AMQP_URL": "amqp://u:secret@127.0.0.1:1/"}, "dlq", "list")
	if err == nil || !strings.Contains(err.Error(), "amqp://u:xxxxx@127.0.0.1:1/") || !strings.Contains(err.Error(), "tried for 10s") {
		t.Error(err)
	}
}
