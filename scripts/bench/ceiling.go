package main

// What can the broker do at best? The same messages, published by nothing but the client library: persistent,
// mandatory, confirmed, to the same quorum queue. A relay has to do this as well, and cannot be faster.

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// publishAlone are the ways in which nothing but the client library publishes; the best of them is the ceiling.
func (r *rig) publishAlone(ctx context.Context) (ways []way) {
	for _, channels := range []int{1, 2} {
		for _, window := range []int{100, 1000} {
			name := fmt.Sprintf("raw publish, window %d, channels %d", window, channels)
			ways = append(ways, way{name, func() (rate float64, err error) {
				err = r.at(ctx, func(s *site) error {
					rate, err = s.publishRaw(ctx, r.events, channels, window)
					return err
				})
				return rate, err
			}})
		}
	}
	return ways
}

func (s *site) publishRaw(ctx context.Context, n, channels, window int) (perSecond float64, err error) {
	var publishers []*publisher
	for range channels {
		p, err := s.newPublisher(window)
		if err != nil {
			return 0, err
		}
		publishers = append(publishers, p)
	}
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for c, p := range publishers {
		group.Go(func() error {
			for i := c; i < n; i += channels {
				if err := p.send(ctx, orderPlaced(i+1)); err != nil {
					return err
				}
			}
			return p.flush(ctx)
		})
	}
	err = group.Wait()
	return float64(n) / time.Since(began).Seconds(), err
}
