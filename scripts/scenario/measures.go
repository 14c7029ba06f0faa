// What can a condition ask? This table lists every measure: questions to SQL, HTTP, the broker, the tap and the
// processes, each answered with numbers at the moment it is asked.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"example.com/outboxlab/scripts/blackbox"
)

// measure is one question.
type measure struct {
	usage, meaning string
	least, most    int // how many arguments it takes
	ask            func(ctx context.Context, s *stage, args []string) ([]float64, error)
}

// measures by name.
var measures = map[string]measure{
	"orders": sqlMeasure("rows in orders.orders", `SELECT count(*) FROM orders.orders`),
	"ledger": sqlMeasure("rows in loyalty.ledger", `SELECT count(*) FROM loyalty.ledger`),
	"inbox":  sqlMeasure("rows in loyalty.processed_messages", `SELECT count(*) FROM loyalty.processed_messages`),
	"points": {usage: "points [CUSTOMER]", meaning: "points of one customer, asked over HTTP; without a customer the sum of the ledger",
		most: 1, ask: askPoints},

	"pending":  sqlMeasure("outbox rows neither published nor given up", countPending),
	"given-up": sqlMeasure("outbox rows that are dead: given up after the last attempt", countGivenUp),
	"tries":    sqlMeasure("failed attempts that the outbox counts, all rows together", sumTries),
	"oldest":   sqlMeasure("age of the oldest pending outbox row, in whole seconds", ageOfOldest),
	"claimed":  sqlMeasure("pending outbox rows that are locked or leased at this moment", countClaimed),

	"publishes":          tapMeasure("events published, repeats included", func(c counts) int { return len(c.published) }),
	"republished":        tapMeasure("events published again: publishes less distinct events published", counts.republished),
	"deliveries":         tapMeasure("messages handed to the loyalty service, repeats included", func(c counts) int { return len(c.delivered) }),
	"redeliveries":       tapMeasure("deliveries that the broker marked as redelivered", counts.redeliveries),
	"failures":           tapMeasure("the highest x-delivery-count of any delivery: failed attempts that were counted against a message", counts.failures),
	"neighbour-failures": {usage: "neighbour-failures ORDER", meaning: "the highest x-delivery-count of any delivery of other orders' events", least: 1, most: 1, ask: askNeighbourFailures},
	"publishers":         tapMeasure("connections that published", func(c counts) int { return len(c.publishesByConnection()) }),
	"fewest":             tapMeasure("publishes of the connection that published least", counts.fewest),

	"attempts": {usage: "attempts ORDER", meaning: "deliveries of one order's event", least: 1, most: 1, ask: askAttempts},
	"waits":    {usage: "waits ORDER", meaning: "seconds between the deliveries of one order's event; compare with `at-least`", least: 1, most: 1, ask: askWaits},

	"dlq":           {usage: "dlq [REASON]", meaning: "messages in the dead-letter queue, by the reason of their death", most: 1, ask: askDeadLetters},
	"dlq-failures":  {usage: "dlq-failures ORDER", meaning: "x-delivery-count of that order's message in the dead-letter queue", least: 1, most: 1, ask: askDeadFailures},
	"dlq-unchanged": {usage: "dlq-unchanged", meaning: "messages in the dead-letter queue whose bytes are those that were published", ask: askUnchanged},
	"kept":          {usage: "kept", meaning: "messages that the loyalty queue still counts, those included that died and have nowhere to go (seconds late)", ask: askKept},
	"in-hand":       {usage: "in-hand", meaning: "messages that the loyalty service holds at least, while no copies and no retries are under way", ask: askInHand},
	"ready":         {usage: "ready", meaning: "messages waiting in the loyalty queue", ask: askReady},

	"connections": {usage: "connections NAME", meaning: "connections to the broker that carry this name, also those it no longer reads from", least: 1, most: 1, ask: askConnections},
	"metric":      {usage: "metric NAME SERIES", meaning: "what a service's /metrics says of one series, labels and all", least: 2, most: 2, ask: askMetric},

	"deaths":  {usage: "deaths NAME", meaning: "how often a service that was started `restarting` has died", least: 1, most: 1, ask: askDeaths},
	"holding": {usage: "holding NAME", meaning: "1 while that service holds at its crash point", least: 1, most: 1, ask: askHolding},
	"printed": {usage: "printed NAME WORD …", meaning: "lines of a service's output that contain these words", least: 2, most: 9, ask: askPrinted},
	"placed":  {usage: "placed", meaning: "orders of the newest wave (place N orders) that have been answered 201", ask: askPlaced},
	"moving":  {usage: "moving", meaning: "1 while anything is still placed, pending, queued, delayed or under way, else 0", ask: askMoving},
}

func number(n int, err error) ([]float64, error) {
	if err != nil {
		return nil, err
	}
	return []float64{float64(n)}, nil
}

// sqlMeasure asks one count as the owner.
func sqlMeasure(meaning, query string) measure {
	return measure{meaning: meaning, ask: func(ctx context.Context, s *stage, _ []string) ([]float64, error) {
		var n int
		err := s.db.QueryRow(ctx, query).Scan(&n)
		return number(n, err)
	}}
}

// tapMeasure asks what the broker's firehose has told so far.
func tapMeasure(meaning string, of func(counts) int) measure {
	return measure{meaning: meaning, ask: func(ctx context.Context, s *stage, _ []string) ([]float64, error) {
		c, err := s.traffic(ctx)
		return number(of(c), err)
	}}
}

func askPoints(ctx context.Context, s *stage, args []string) ([]float64, error) {
	var answer struct {
		Points int `json:"points"`
	}
	if len(args) == 0 {
		err := s.db.QueryRow(ctx, `SELECT coalesce(sum(points), 0) FROM loyalty.ledger`).Scan(&answer.Points)
		return number(answer.Points, err)
	}
	p, err := s.running("loyalty")
	if err != nil {
		return nil, err
	}
	page, err := blackbox.Get(ctx, p.Address()+"/customers/"+args[0]+"/points")
	if err != nil {
		return nil, err
	}
	defer func() { _ = page.Close() }()
	err = json.NewDecoder(page).Decode(&answer)
	return number(answer.Points, err)
}

func askAttempts(ctx context.Context, s *stage, args []string) ([]float64, error) {
	times, err := s.deliveriesOf(ctx, args[0])
	return number(len(times), err)
}

func askWaits(ctx context.Context, s *stage, args []string) ([]float64, error) {
	times, err := s.deliveriesOf(ctx, args[0])
	var waits []float64
	for i := 1; i < len(times); i++ {
		waits = append(waits, times[i].Sub(times[i-1]).Seconds())
	}
	return waits, err
}

func askDeadLetters(_ context.Context, s *stage, args []string) ([]float64, error) {
	letters, err := s.broker.parked()
	n := 0
	for _, l := range letters {
		if len(args) == 0 || l.reason == args[0] {
			n++
		}
	}
	return number(n, err)
}

func askDeadFailures(_ context.Context, s *stage, args []string) ([]float64, error) {
	letters, err := s.broker.parked()
	if err != nil {
		return nil, err
	}
	for _, l := range letters {
		if strconv.FormatInt(l.orderID, 10) == args[0] {
			return number(int(l.failures), nil)
		}
	}
	return nil, fmt.Errorf("order %s is not in the dead-letter queue", args[0])
}

func askMoving(ctx context.Context, s *stage, _ []string) ([]float64, error) {
	moving, err := s.moving(ctx)
	if moving != "" {
		return number(1, err)
	}
	return number(0, err)
}

func askReady(_ context.Context, s *stage, _ []string) ([]float64, error) {
	ready, err := s.broker.queue(loyaltyQueue)
	return number(ready, err)
}

func askHolding(_ context.Context, s *stage, args []string) ([]float64, error) {
	p, err := s.running(args[0])
	if err != nil {
		return nil, err
	}
	return number(p.holding(), nil)
}

func askPrinted(_ context.Context, s *stage, args []string) ([]float64, error) {
	p := s.find(args[0])
	if p == nil {
		return nil, fmt.Errorf("%s was not started", args[0])
	}
	return number(p.Printed(strings.Join(args[1:], " ")), nil)
}
