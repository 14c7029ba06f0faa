package main

// Does one message over which the broker ends the session keep the others in the dead-letter queue?

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
	"example.com/outboxlab/scripts/stack/servers"
)

// padded is a message whose body has that many bytes.
func padded(order int64, size int) amqp.Publishing {
	m := placed(order)
	m.Body = append(m.Body, strings.Repeat(" ", size-len(m.Body))...)
	return m
}

// redriven runs redrive, looks at what it says and at where the messages are then.
func (s stage) redriven(t *testing.T, cmd *RedriveCmd, done, left, queued int, says ...string) {
	t.Helper()
	var out, notes strings.Builder
	err := cmd.run(t.Context(), s.config(t), console{out: &out, notes: &notes})
	if want := messages(done) + " redriven\n"; out.String() != want || (err == nil) != (left == 0) {
		t.Errorf("%q, %v, want %q", out.String(), err, want)
	}
	for _, text := range says {
		if !strings.Contains(notes.String(), text) {
			t.Errorf("not said: %q\n%s", text, notes.String())
		}
	}
	lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, left)
	if n := lab.Ready(t, s.ch, topology.Queue); n != queued {
		t.Errorf("%d messages in the queue, want %d", n, queued)
	}
}

// The broker's size limit has been lowered since. What it does not take any more is named, the rest leaves, and nothing
// is published twice, however often somebody tries.
func TestAMessageAboveTheBrokersLimitStaysAlone(t *testing.T) {
	t.Parallel()
	pair, err := servers.StartPrivate(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pair.Stop(context.WithoutCancel(t.Context())) })
	stageOf := func(messages ...amqp.Publishing) stage {
		l, err := lab.New(t.Context(), pair.URLs)
		if err != nil {
			t.Fatal(err)
		}
		s := stage{l, l.Owner(t), l.Channel(t)}
		s.reject(t, messages...)
		return s
	}
	seven := stageOf(placed(1), padded(2, 5001), padded(3, 4000), placed(4), padded(5, 5000), placed(6), placed(7))
	var lots []amqp.Publishing
	for order := range int64(windowSize + 20) {
		lots = append(lots, padded(order+1, 200+10*int(order)%1000))
	}
	lots[3], lots[windowSize/2], lots[windowSize+3] = padded(1001, 9000), padded(1002, 6000), padded(1003, 7000)
	many := stageOf(lots...)
	if _, err := pair.Rabbitmqctl(t.Context(), "eval", "application:set_env(rabbit, max_message_size, 5000), persistent_term:put(max_message_size, 5000)."); err != nil {
		t.Fatal(err)
	}

	const words = "larger than configured max size 5000"
	all := &RedriveCmd{All: true}
	seven.redriven(t, all, 6, 1, 6, words)
	seven.redriven(t, all, 0, 1, 6, words)
	seven.redriven(t, all, 0, 1, 6, words)
	id := lab.Take(t, seven.ch, topology.DeadLetterQueue)[0].MessageId
	big := padded(2, 5001)
	big.MessageId = id
	// By name, alone and with another one.
	if _, err := pair.Rabbitmqctl(t.Context(), "eval", "application:set_env(rabbit, max_message_size, 9000), persistent_term:put(max_message_size, 9000)."); err != nil {
		t.Fatal(err)
	}
	seven.ch = seven.Channel(t)
	lab.Take(t, seven.ch, topology.Queue)
	other := placed(8)
	seven.reject(t, other, big)
	if _, err := pair.Rabbitmqctl(t.Context(), "eval", "application:set_env(rabbit, max_message_size, 5000), persistent_term:put(max_message_size, 5000)."); err != nil {
		t.Fatal(err)
	}
	seven.redriven(t, &RedriveCmd{IDs: []string{id}}, 0, 2, 0, id+" not redriven", words)
	seven.redriven(t, &RedriveCmd{IDs: []string{id, other.MessageId}}, 1, 1, 1, id+" not redriven", words)

	many.redriven(t, all, len(lots)-3, 3, len(lots)-3, words)
	many.redriven(t, all, 0, 3, len(lots)-3, words)
}

// restricted is the stage's broker for an account that may publish to exchanges only as the patterns say, and to the
// exchange orders only with such keys.
func (s stage) restricted(t *testing.T, write, keys string) stage {
	t.Helper()
	name := "restricted_" + s.Name
	put := func(path, body string) {
		t.Helper()
		s.manage(t, http.MethodPut, path, body)
	}
	put("/api/users/"+name, `{"password":"p","tags":""}`)
	t.Cleanup(func() { s.manage(t, http.MethodDelete, "/api/users/"+name, "") })
	put("/api/permissions/"+s.Vhost+"/"+name, fmt.Sprintf(`{"configure":".*","read":".*","write":%q}`, write))
	put("/api/topic-permissions/"+s.Vhost+"/"+name, fmt.Sprintf(`{"exchange":"orders","write":%q,"read":".*"}`, keys))
	u, err := url.Parse(s.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "p")
	changed := *s.Lab
	changed.AMQPURL = u.String()
	return stage{&changed, s.db, s.ch}
}

func (s stage) manage(t *testing.T, method, path, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, s.ManagementURL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s %s: %s", method, path, answer.Status)
	}
}

// Some letters go where this account may not publish, or to an exchange that is gone. They are named with the broker's words
// and stay; the others leave.
func TestWhereNothingMayBePublishedOnlyThoseStay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		write, keys string
		gone        bool
		says        string
	}{
		"no right to the exchange": {write: "^orders$", keys: ".*", says: "ACCESS_REFUSED"},
		"no right to the key":      {write: ".*", keys: "^order[.]placed$", says: "ACCESS_REFUSED"},
		"the exchange is gone":     {write: ".*", keys: ".*", gone: true, says: `the exchange "old", where it came from, does not exist`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			exchange := "old"
			if strings.Contains(name, "key") {
				exchange = topology.Exchange
			} else if err := s.ch.ExchangeDeclare("old", amqp.ExchangeTopic, true, false, false, false, nil); err != nil {
				t.Fatal(err)
			}
			queue := s.brittle(t, exchange, "order.brittle", nil)
			s.reject(t, placed(1), padded(2, 3000))
			for order := range int64(3) {
				confirm, err := s.ch.PublishWithDeferredConfirm(exchange, "order.brittle", true, false, padded(10+order, 500*int(1+order)))
				if err != nil || !confirm.Wait() {
					t.Fatal(err)
				}
				s.rejectHead(t, queue, false)
			}
			lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, 5) // dead letters come a moment after the rejection
			s.reject(t, placed(3), placed(4))
			if c.gone {
				if err := s.ch.ExchangeDelete("old", false, false); err != nil {
					t.Fatal(err)
				}
			}
			limited := s.restricted(t, c.write, c.keys)
			limited.redriven(t, &RedriveCmd{All: true}, 4, 3, 4, c.says)
			limited.redriven(t, &RedriveCmd{All: true}, 0, 3, 4, c.says)
		})
	}
}

// The connection breaks without a word whenever this message is sent, as with a proxy that does not let it pass. It is
// found, and those that were sent together with it are sent again, once.
func TestAMessageThatBreaksTheConnectionStaysAlone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	poison := placed(5)
	poison.CorrelationId = "poison-poison"
	s.reject(t, padded(1, 1000), placed(2), placed(3), placed(4), poison, placed(6), placed(7))
	path := newLink(t, s.AMQPURL)
	path.breakOn(poison.CorrelationId)
	changed := *s.Lab
	changed.AMQPURL = path.url
	over := stage{&changed, s.db, s.ch}
	for range 3 {
		notes, err := over.remarks(t, &RedriveCmd{All: true})
		if err == nil || !strings.Contains(notes, poison.MessageId+" not redriven: the connection to the broker was lost twice") {
			t.Errorf("%v, %s", err, notes)
		}
		lab.AwaitReady(t, s.ch, topology.DeadLetterQueue, 1)
	}
	got := map[string]int{}
	for _, d := range lab.Take(t, s.ch, topology.Queue) {
		got[string(d.Body)]++
	}
	for body, n := range got {
		if n > 2 {
			t.Errorf("%d times %s", n, body)
		}
	}
	if len(got) != 6 {
		t.Errorf("%d different messages redriven", len(got))
	}
}
