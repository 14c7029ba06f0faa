package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/pkg/service"
	"example.com/outboxlab/scripts/lab"
)

// Does looking into the dead-letter queue show everything, and leave everything as it was?

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
	for name, value := range more {
		args[name] = value
	}
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
	if err == nil || !strings.Contains(err.Error(), "no answer from amqp://u:xxxxx@127.0.0.1:1/ within 10s") {
		t.Error(err)
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
		if _, usage := err.(service.UsageError); !usage {
			t.Errorf("dlq %s: want a usage error, got %v", line, err)
		}
	}
}
