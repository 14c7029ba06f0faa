package topology_test

// Which broker behaviour do the relay's confirms and the idempotent declaration stand on?

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/wait"
)

// The broker confirms a message that no queue wanted; what tells it from a stored one is the
// return, and that is in a buffered channel by the time the confirm is (facts 2.3). The relay
// therefore looks once, without waiting, after each confirm.
func TestReturnIsVisibleRightAfterConfirm(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	ch := p.channel()
	returns := ch.NotifyReturn(make(chan amqp.Return, 1))

	for i := range 500 {
		id := fmt.Sprintf("m%d", i)
		confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, topology.Exchange, "order.nobody-listens",
			true, false, amqp.Publishing{MessageId: id})
		p.must("publish", err)
		if acked, err := confirm.WaitContext(ctx); err != nil || !acked {
			t.Fatalf("confirm of unroutable %s: acked=%v, %v; the broker should accept it", id, acked, err)
		}
		select {
		case r := <-returns:
			if r.MessageId != id || r.ReplyCode != amqp.NoRoute {
				t.Fatalf("return of %s with code %d, want %s with %d", r.MessageId, r.ReplyCode, id, amqp.NoRoute)
			}
		default:
			t.Fatalf("confirm %d is here, its return is not", i)
		}
	}
}

// Two releases that disagree about a queue must not both start: the second one's declaration is
// refused with 406, and its channel is gone (facts 1.4, 1.6).
func TestRedeclareWithAnotherRetryTypeFails(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	changed := amqp.Table{}
	for name, value := range p.queueArguments(topology.Queue) {
		if number, ok := value.(float64); ok { // JSON knows no integers, the broker compares them
			value = int64(number)
		}
		changed[name] = value
	}
	changed["x-delayed-retry-type"] = "all"

	_, err := p.channel().QueueDeclare(topology.Queue, true, false, false, false, changed)
	var refused *amqp.Error
	if !errors.As(err, &refused) || refused.Code != amqp.PreconditionFailed {
		t.Fatalf("redeclare with x-delayed-retry-type all: %v, want %d", err, amqp.PreconditionFailed)
	}
	p.must("declare again what is there", topology.Declare(p.channel()))
}

// What the broker holds is what the design says. Misspelt arguments are accepted without a word
// (facts 1.4, 1.6), so they are read back rather than trusted.
func TestBrokerHoldsTheContract(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	want := map[string]map[string]any{
		topology.Queue: {
			"x-queue-type": "quorum", "x-delivery-limit": 5.0,
			"x-delayed-retry-type": "failed", "x-delayed-retry-min": 1000.0, "x-delayed-retry-max": 10000.0,
			"x-dead-letter-exchange": "orders.dlx", "x-dead-letter-routing-key": "loyalty.order-placed",
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		},
		topology.DeadLetterQueue: {"x-queue-type": "quorum", "x-delivery-limit": -1.0},
	}
	for queue, arguments := range want {
		got := p.queueArguments(queue)
		for name, value := range arguments {
			if got[name] != value {
				t.Errorf("%s: %s is %v, want %v", queue, name, got[name], value)
			}
		}
		if len(got) != len(arguments) {
			t.Errorf("%s has arguments %v, want %v and no others", queue, got, arguments)
		}
	}
}

// queueArguments asks the management API, which answers numbers as float64.
func (p *probe) queueArguments(queue string) map[string]any {
	p.Helper()
	address := fmt.Sprintf("%s/api/queues/%s/%s", p.lab.ManagementURL, url.PathEscape(p.lab.Vhost), queue)
	request, err := http.NewRequestWithContext(p.Context(), http.MethodGet, address, nil)
	p.must("request", err)
	response, err := http.DefaultClient.Do(request)
	p.must("ask management API", err)
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		p.Fatalf("management API about %s: %s", queue, response.Status)
	}
	var answer struct {
		Arguments map[string]any `json:"arguments"`
	}
	p.must("read answer", json.NewDecoder(response.Body).Decode(&answer))
	return answer.Arguments
}
