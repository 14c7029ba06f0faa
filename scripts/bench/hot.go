package main

// Events of one aggregate are published one after the other, each after the confirm of the one before. The fewer
// aggregates the events are of, the slower a relay is, and this says by how much.

import (
	"context"
	"fmt"
)

// hotAggregates are the numbers of aggregates. Fewer events are drained where they take longer: the relay's rate counts,
// and a round should last some seconds.
var hotAggregates = []struct{ aggregates, part int }{{100, 2}, {10, 5}, {1, 10}}

func relayHot(ctx context.Context, r *rig) error {
	var contestants []contestant
	for _, claim := range []string{defaultClaim, "lease"} {
		add := func(name string, n, aggregates int) {
			contestants = append(contestants, contestant{name: name + ", claim " + claim, ceiling: claim == defaultClaim && aggregates == r.events,
				run: r.inLab(ctx, func(s *site) ([]reading, error) {
					readings, err := s.drain(ctx, configuration{1, claim, defaultBatch}, n, aggregates)
					if err != nil {
						return nil, err
					}
					return readings[:1], nil
				})})
		}
		add("an aggregate for each event", r.events, r.events)
		for _, hot := range hotAggregates {
			add(fmt.Sprintf("aggregates %d", hot.aggregates), r.events/hot.part, hot.aggregates)
		}
	}
	measures, err := r.compare(contestants...)
	r.report(measures...)
	return err
}
