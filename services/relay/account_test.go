package main

// What does the relay do with an account that may not do what it needs, and what does it say?

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/pkg/service"
	"example.com/outboxlab/scripts/lab"
)

// hopeless is one way in which a server can refuse the relay, so that no waiting helps.
type hopeless struct {
	says    string // a pattern
	prepare func(t *testing.T, l *lab.Lab, env map[string]string)
}

var hopelessCases = map[string]hopeless{
	"password": {`\(403\).*Login was refused`, func(t *testing.T, l *lab.Lab, env map[string]string) {
		t.Helper()
		env["AMQP_URL"] = strings.Replace(l.Account(t).URL, "secret", "wrong", 1)
	}},
	"vhost": {`\(530\).*vhost .* not found`, func(t *testing.T, l *lab.Lab, env map[string]string) {
		t.Helper()
		env["AMQP_URL"] = l.AMQPURL + "x"
	}},
	"configure": {`\(403\).*configure access to exchange`, func(t *testing.T, l *lab.Lab, env map[string]string) {
		t.Helper()
		account := l.Account(t)
		account.Permit("", ".*", ".*")
		env["AMQP_URL"] = account.URL
	}},
	"bind": {`\(403\).*read access to`, func(t *testing.T, l *lab.Lab, env map[string]string) {
		t.Helper()
		account := l.Account(t)
		account.Permit(".*", ".*", "")
		env["AMQP_URL"] = account.URL
	}},
	"write": {`403 ACCESS_REFUSED - write access to exchange 'orders'`, func(t *testing.T, l *lab.Lab, env map[string]string) {
		t.Helper()
		account := l.Account(t)
		account.Permit(".*", "^loyalty|dlx$", ".*")
		env["AMQP_URL"] = account.URL
	}},
	"queue": {`\(406\).*inequivalent arg`, func(t *testing.T, l *lab.Lab, _ map[string]string) {
		t.Helper()
		ch := bareChannel(t, l)
		if _, err := ch.QueueDeclare(topology.Queue, true, false, false, false, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum, "x-delivery-limit": int64(7)}); err != nil {
			t.Fatal(err)
		}
	}},
	"exchange": {`\(406\).*inequivalent arg 'type'`, func(t *testing.T, l *lab.Lab, _ map[string]string) {
		t.Helper()
		if err := bareChannel(t, l).ExchangeDeclare(topology.Exchange, "fanout", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}},
	"database password": {`password authentication failed`, func(t *testing.T, l *lab.Lab, env map[string]string) {
		t.Helper()
		env["DATABASE_URL"] = strings.Replace(l.RelayURL, "relay_app:", "relay_app:x", 1)
	}},
	"database": {`database .* does not exist`, func(t *testing.T, l *lab.Lab, env map[string]string) {
		t.Helper()
		env["DATABASE_URL"] = strings.Replace(l.RelayURL, l.Name, l.Name+"x", 1)
	}},
	"table": {`lacks the permission: UPDATE on orders.outbox`, func(t *testing.T, l *lab.Lab, _ map[string]string) {
		t.Helper()
		lab.Exec(t, l.Owner(t), `REVOKE UPDATE (published_at, attempt_count, last_error, retry_at, locked_until, lock_token, dead_lettered_at) ON orders.outbox FROM relay_app`)
	}},
}

// bareChannel opens a channel in a vhost in which nothing is declared yet.
func bareChannel(t *testing.T, l *lab.Lab) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(l.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// What no waiting heals ends the relay at its start, and --once at once, with the server's words.
func TestAtItsStartItEndsOverWhatNoWaitingHeals(t *testing.T) {
	t.Parallel()
	for name, refusal := range hopelessCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := lab.ForTest(t)
			env := environment(l)
			lab.Exec(t, l.Owner(t), insertEvents, 3)
			refusal.prepare(t, l, env)
			for _, args := range [][]string{nil, {"--once"}} {
				out, err := lab.Run(t, run, env, args...)
				if err == nil || !regexp.MustCompile(refusal.says).MatchString(err.Error()) || errors.As(err, new(service.UsageError)) {
					t.Errorf("%v: %v", args, err)
				}
				if err != nil && strings.Contains(err.Error(), "tried for") || regexp.MustCompile("publishing: .*trying again").MatchString(out) {
					t.Errorf("%v: tried again: %v\n%s", args, err, out)
				}
			}
		})
	}
}

// A relay that has worked does not end over such an error. It says what is wrong, in the broker's words, and goes on when that
// is repaired.
func TestOnceItHasWorkedItWaitsForARepair(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db, account := l.Owner(t), l.Account(t)
	r := lab.Start(t, run, environment(l, "AMQP_URL", account.URL, "LOG_LEVEL", "info"))
	lab.Exec(t, db, insertEvents, 1)
	lab.AwaitOne(t, db, 0, countPending)
	account.Permit(".*", "^loyalty|dlx$", ".*") // not to the exchange
	lab.Poll(t, awaitLimit, "told", func() (bool, error) {
		account.Disconnect() // a channel remembers what it was permitted
		lab.Exec(t, db, insertEvents, 20)
		return strings.Contains(r.Output(), "403 ACCESS_REFUSED - write access to exchange 'orders'"), nil
	})
	account.Permit(".*", ".*", ".*")
	lab.AwaitOne(t, db, 0, countPending)
	r.AwaitOutput("publishing works again")
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
}

// The exchange is deleted while batches are under way: the log has the broker's reason, not the client library's.
func TestAMissingExchangeIsTold(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db, ch := l.Owner(t), l.Channel(t)
	r := lab.Start(t, run, environment(l, "LOG_LEVEL", "info"))
	lab.Poll(t, awaitLimit, "told", func() (bool, error) {
		lab.Exec(t, db, insertEvents, 500)
		err := ch.ExchangeDelete(topology.Exchange, false, false)
		return strings.Contains(r.Output(), "404 NOT_FOUND - no exchange 'orders'"), err
	})
	lab.AwaitOne(t, db, 0, countPending)
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
	if out := r.Output(); strings.Contains(out, "channel/connection is not open") {
		t.Error(out)
	}
}

// A topic permission is about some event types. One that may not be published does not keep the others waiting.
func TestAnEventTypeThatIsNotPermittedHurtsOnlyItself(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db, account := l.Owner(t), l.Account(t)
	_ = l.Channel(t) // declares the exchange
	account.PermitTopics(topology.Exchange, "^order\\.placed$")
	lab.Exec(t, db, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', 'other', 'order.other', '{}')`)
	lab.Exec(t, db, insertEvents, 20)
	r := lab.Start(t, run, environment(l, "AMQP_URL", account.URL, "RELAY_MAX_ATTEMPTS", "1"))
	lab.AwaitOne(t, db, 0, countPending)
	if got := lab.One[string](t, db, `SELECT string_agg(aggregate_id || ' ' || last_error, '; ') FROM orders.outbox WHERE dead_lettered_at IS NOT NULL`); !strings.HasPrefix(got, "other refused by the broker: ACCESS_REFUSED") {
		t.Error(got)
	}
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
}

// The relay needs one connection with one channel.
func TestPublishingNeedsOneChannel(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db, account := l.Owner(t), l.Account(t)
	account.Limit("max-channels", 1)
	account.Limit("max-connections", 1)
	lab.Exec(t, db, insertEvents, 100)
	r := lab.Start(t, run, environment(l, "AMQP_URL", account.URL))
	lab.AwaitOne(t, db, 0, countPending)
	if err := r.Stop(); err != nil || strings.Contains(r.Output(), "trying again") {
		t.Errorf("%v\n%s", err, r.Output())
	}
}
