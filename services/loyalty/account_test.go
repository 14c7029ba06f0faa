package main

// What does loyalty do with an account of the broker that may have little?

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/pkg/service"
	"example.com/outboxlab/scripts/lab"
)

// One connection with one channel is enough to consume. Watching the queues needs another, and is done without.
func TestConsumingNeedsOneChannel(t *testing.T) {
	t.Parallel()
	for limit, says := range map[string]string{
		"max-channels":    "number of channels opened for user",
		"max-connections": "user connection limit (1) is reached",
	} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			account := s.Account(t)
			account.Limit(limit, 1)
			const orders = 30
			for order := range int64(orders) {
				s.publish(t, placed(order+1))
			}
			r := s.loyalty(t, "AMQP_URL", account.URL, "LOG_LEVEL", "info")
			lab.AwaitOne(t, s.db, orders, countAwards)
			r.AwaitOutput("watching the queues .*: .*NOT_ALLOWED")
			awaitMetric(t, r, "loyalty_queue_depth NaN")
			if n := lab.Ready(t, s.ch, topology.DeadLetterQueue); n != 0 {
				t.Errorf("%d in the DLQ", n)
			}
			if out := r.Output(); strings.Contains(out, "consuming: ") || strings.Count(out, says) != 1 {
				t.Errorf("want one session, and %q once:\n%s", says, out)
			}
			s.awaitIdle(t, r)
		})
	}
}

// Nothing that ends a session with a message in hand may spend deliveries quickly: there are six. Here the connection is
// cut whenever the award of the one message waits for a lock. Being attached again in between changes nothing.
func TestDeliveriesAreSpentSlowly(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	path := newLink(t, s.AMQPURL)
	unlock := s.lockLedger(t)
	r := s.loyalty(t, "AMQP_URL", path.url)
	s.publish(t, placed(1))
	for _, pause := range []string{"2s", "4s", "8s"} {
		awaitBlocked(t, s.db)
		path.cut()
		next := s.lockLedgerNext(t) // or the next session could settle the message before it is locked again
		unlock()
		unlock = next()
		r.AwaitOutput("consuming: .*; trying again in " + pause)
	}
	unlock()
	lab.AwaitOne(t, s.db, 1, countAwards)
	r.AwaitOutput("consuming works again")
	s.awaitIdle(t, r)
}

// lockLedgerNext queues for the lock that lockLedger holds, behind loyalty's session. locked waits until it has it.
func (s stage) lockLedgerNext(t *testing.T) (locked func() (unlock func())) {
	t.Helper()
	taken := make(chan func(), 1)
	go func() { taken <- s.lockLedger(t) }()
	lab.AwaitOne(t, s.db, 2, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
	return func() func() { return <-taken }
}

// The log says why a session ended, in the broker's words.
func TestTheBrokersReasonIsTold(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	account := s.Account(t)
	r := s.loyalty(t, "AMQP_URL", account.URL, "LOG_LEVEL", "info")
	lab.Poll(t, awaitLimit, "reason", func() (bool, error) { // the management API knows of a connection after a while
		account.Disconnect()
		return strings.Contains(r.Output(), "consuming: session ended by the broker: 320 CONNECTION_FORCED"), nil
	})
	s.publish(t, placed(1))
	lab.AwaitOne(t, s.db, 1, countAwards)
	s.awaitIdle(t, r)
}

// What no waiting heals ends the service at its start, in one line with the server's words.
func TestAtItsStartItEndsOverWhatNoWaitingHeals(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	account := s.Account(t)
	account.Permit(".*", ".*", "") // it may not consume
	for says, change := range map[string][2]string{
		"\\(403\\) .*read access to .* refused":               {"AMQP_URL", account.URL},
		"\\(403\\) .*Login was refused":                       {"AMQP_URL", strings.Replace(account.URL, "secret", "wrong", 1)},
		"\\(530\\) .*vhost .* not found":                      {"AMQP_URL", account.URL + "x"},
		"password authentication failed":                      {"DATABASE_URL", strings.Replace(s.LoyaltyURL, "loyalty_app:", "loyalty_app:x", 1)},
		"database .* does not exist":                          {"DATABASE_URL", strings.Replace(s.LoyaltyURL, s.Name, s.Name+"x", 1)},
		"permission denied for schema|lacks the permission: ": {"DATABASE_URL", s.OrdersURL},
	} {
		env := map[string]string{"DATABASE_URL": s.LoyaltyURL, "AMQP_URL": s.AMQPURL, "LOYALTY_ADDR": "127.0.0.1:0", change[0]: change[1]}
		_, err := lab.Run(t, run, env)
		if err == nil || !regexp.MustCompile(`^consuming: .*`+says).MatchString(err.Error()) || errors.As(err, new(service.UsageError)) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// A command says at once why the broker does not let it, in the broker's words.
func TestACommandSaysWhyTheBrokerRefuses(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	account := s.Account(t)
	dlq := func() string {
		out, err := lab.Run(t, run, map[string]string{"DATABASE_URL": s.LoyaltyURL, "AMQP_URL": account.URL}, "dlq", "list")
		if err == nil {
			return out
		}
		return err.Error()
	}
	s.fill(t, 1)
	account.Limit("max-channels", 1) // a command needs two, one of them for its turn
	if said := dlq(); !strings.Contains(said, "NOT_ALLOWED - number of channels") {
		t.Error(said)
	}
	account.Limit("max-channels", 10)
	account.Permit(".*", ".*", "")
	if said := dlq(); !strings.Contains(said, "read access to queue") || strings.Contains(said, "tried for") {
		t.Error(said)
	}
}
