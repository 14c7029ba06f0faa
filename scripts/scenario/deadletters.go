// What can befall the way into the dead-letter queue? The verb dead-letters, and the measures that look at what died with
// more than a count.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/scripts/blackbox"
)

// deadLetterExchange is where the loyalty queue sends what died, keyed by its own name.
const deadLetterExchange = "orders.dlx"

func compileDeadLetters(args []string) (action, error) {
	switch {
	case len(args) == 1 && args[0] == "unbind":
		return func(_ context.Context, s *stage) error {
			return s.broker.with(func(ch *amqp.Channel) error {
				return ch.QueueUnbind(deadLetters, loyaltyQueue, deadLetterExchange, nil)
			})
		}, nil
	case len(args) == 1 && args[0] == "bind":
		return func(_ context.Context, s *stage) error {
			return s.broker.with(func(ch *amqp.Channel) error {
				return ch.QueueBind(deadLetters, loyaltyQueue, deadLetterExchange, false, nil)
			})
		}, nil
	case len(args) == 2 && args[0] == retryEvery:
		pause, err := time.ParseDuration(args[1])
		if err != nil || pause < time.Second {
			return nil, usage("dead-letters")
		}
		return setDeadLetterRetry(pause), nil
	}
	return nil, usage("dead-letters")
}

// retryEvery is the form of the verb that befalls everybody who uses the server.
const retryEvery = "retry-every"

// setDeadLetterRetry: a queue whose dead letters arrive nowhere tries again every 180 s. The server has a setting for that, not
// meant for the configuration file, which a queue reads when it is declared.
func setDeadLetterRetry(pause time.Duration) action {
	return func(ctx context.Context, s *stage) error {
		expression := fmt.Sprintf("application:set_env(rabbit, dead_letter_worker_publisher_confirm_timeout, %d).", pause.Milliseconds())
		_, err := s.pair.Rabbitmqctl(ctx, "eval", expression)
		return err
	}
}

// askKept asks the management API, which lags by seconds: nothing else counts messages that are neither ready nor in hand.
func askKept(ctx context.Context, s *stage, _ []string) ([]float64, error) {
	address := s.lab.ManagementURL + "/api/queues/" + url.PathEscape(s.lab.Vhost) + "/" + loyaltyQueue
	page, err := blackbox.Get(ctx, address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = page.Close() }()
	var queue struct {
		Messages int `json:"messages"`
	}
	err = json.NewDecoder(page).Decode(&queue)
	return number(queue.Messages, err)
}

// askUnchanged compares what is parked with what went over the wire: to the byte.
func askUnchanged(ctx context.Context, s *stage, _ []string) ([]float64, error) {
	letters, err := s.broker.parked()
	if err != nil {
		return nil, err
	}
	c, err := s.traffic(ctx)
	n := 0
	for _, l := range letters {
		for _, p := range c.published {
			if p.id == l.id && bytes.Equal(p.body, l.body) {
				n++
				break
			}
		}
	}
	return number(n, err)
}
