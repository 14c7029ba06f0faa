package main

import (
	"fmt"
	"testing"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
)

func (s stage) awaitConsumers(t *testing.T, n int) {
	t.Helper()
	lab.Poll(t, awaitLimit, "consumers", func() (bool, error) {
		q, err := s.ch.QueueDeclarePassive(topology.Queue, true, false, false, false, nil)
		return q.Consumers == n, err
	})
}

// Three services lose their connections, several times, with messages in hand: each time all three come back, and no
// message is lost, awarded twice or dead (wagslane/go-rabbitmq#137, rabbitmq/amqp091-go#379).
func TestAllConsumersComeBackFromALostConnection(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	path := newLink(t, s.AMQPURL)
	var services []*lab.Running
	for range 3 {
		services = append(services, s.loyalty(t, "AMQP_URL", path.url))
	}
	const cuts, orders = 4, 20
	for cut := range int64(cuts) {
		s.awaitConsumers(t, 3)
		for order := range int64(orders) {
			s.publish(t, placed(cut*orders+order+1))
		}
		path.cut()
	}
	s.awaitConsumers(t, 3)
	lab.AwaitOne(t, s.db, cuts*orders, countAwards)
	for _, r := range services {
		s.awaitIdle(t, r)
	}
	if n := lab.Ready(t, s.ch, topology.DeadLetterQueue); n != 0 {
		t.Errorf("%d in the DLQ", n)
	}
}

// After a lost connection, as after a start, one message is in hand.
func TestAfterALostConnectionOneMessageIsInHand(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	path := newLink(t, s.AMQPURL)
	r := s.loyalty(t, "AMQP_URL", path.url)
	s.widen(t)
	path.cut()
	r.AwaitOutput("works again")
	unlock := s.lockLedger(t)
	for order := range int64(10) {
		s.publish(t, placed(order+1))
	}
	awaitBlocked(t, s.db)
	if n := lab.Ready(t, s.ch, topology.Queue); n != 9 {
		t.Errorf("%d messages in hand", 10-n)
	}
	unlock()
	s.awaitIdle(t, r)
}

// The handler is slower than the broker's patience: the broker takes the message back and cancels the consumer, on a
// channel that stays open (facts 1.7), or closes the channel if there is no consumer to cancel. The award is made all the
// same, its acknowledgement comes too late and touches nothing else, and in a new session the message comes again, as a
// duplicate that was never counted as a failure.
//
// The broker (4.3.6) sets its timer for a delivery when something happens in the queue, and forgets it if the timer of an
// earlier, acknowledged one has just fired; the next thing that happens puts that right. So it is asked for the message.
func TestAConsumerThatTimedOutComesBack(t *testing.T) {
	t.Parallel()
	for _, wide := range []bool{false, true} {
		t.Run(fmt.Sprintf("window fully open: %v", wide), func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			r := s.loyalty(t, "LOYALTY_CONSUMER_TIMEOUT", "3s")
			if wide {
				s.widen(t)
			}
			unlock := s.lockLedger(t)
			s.publish(t, placed(1))
			awaitBlocked(t, s.db)
			returned := s.getAll(t, 1)[0]
			if count := returned.Headers["x-delivery-count"]; count != nil {
				t.Errorf("counted as delivered in vain %v times", count)
			}
			if err := returned.Nack(false, true); err != nil {
				t.Fatal(err)
			}
			unlock()
			r.AwaitOutput("works again")
			r.AwaitOutput(`\(redelivered\) duplicate, skipped`)
			s.publish(t, placed(2))
			lab.AwaitOne(t, s.db, 2, countAwards+` WHERE order_id < $1`, wideners)
			s.awaitIdle(t, r)
			if n := lab.Ready(t, s.ch, topology.DeadLetterQueue); n != 0 {
				t.Errorf("%d in the DLQ", n)
			}
		})
	}
}

// All connections to the database go silent, as behind a firewall that has forgotten them. New ones would work, but a
// pool hands out old ones first. The message in hand is given back uncounted, and awarded once the silence is noticed.
func TestAPoolOfSilentConnectionsIsLeft(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	path := newLink(t, s.LoyaltyURL)
	r := s.loyalty(t, "DATABASE_URL", path.url+"&pool_min_conns=8&pool_max_conns=8")
	lab.AwaitOne(t, s.db, 8, `SELECT count(*) FROM pg_stat_activity WHERE usename = 'loyalty_app' AND datname = current_database()`)
	path.mute()
	s.publish(t, placed(1))
	lab.Poll(t, awaitLimit, "awarded", func() (bool, error) {
		return lab.One[int64](t, s.db, countAwards) == 1, nil
	})
	s.awaitIdle(t, r)
	if n := lab.Ready(t, s.ch, topology.DeadLetterQueue); n != 0 {
		t.Errorf("%d in the DLQ", n)
	}
}
