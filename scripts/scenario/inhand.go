// What does the consumer hold, and what did it cost whom? The measures of stories about crashes and stops.
package main

import (
	"context"
	"fmt"
)

// askInHand subtracts: what was published, less what is ready, less what is handled or parked. Asked in this order, a
// message that moves on meanwhile is subtracted twice rather than not at all, so the answer is never too high.
func askInHand(ctx context.Context, s *stage, _ []string) ([]float64, error) {
	c, err := s.traffic(ctx)
	if err != nil {
		return nil, err
	}
	ready, err := s.broker.queue(loyaltyQueue)
	if err != nil {
		return nil, err
	}
	dead, err := s.broker.queue(deadLetters)
	if err != nil {
		return nil, err
	}
	var handled int
	err = s.db.QueryRow(ctx, `SELECT count(*) FROM loyalty.processed_messages`).Scan(&handled)
	return number(c.distinctPublished()-ready-handled-dead, err)
}

func askNeighbourFailures(ctx context.Context, s *stage, args []string) ([]float64, error) {
	c, err := s.traffic(ctx)
	return number(c.neighbourFailures(args[0]), err)
}

// neighbourFailures is the highest number of failed attempts that a delivery of any other order's event carried.
func (c counts) neighbourFailures(order string) int {
	highest := int64(0)
	for _, d := range c.delivered {
		if fmt.Sprint(c.events[d.id]) != order {
			highest = max(highest, d.failures)
		}
	}
	return int(highest)
}
