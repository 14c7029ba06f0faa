package main

// What can the broker do at best? The same messages, published by nothing but the client library: persistent,
// mandatory, confirmed, to the same quorum queue. A relay has to do this as well. One way writes messages to the network
// together, as the relay does.

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"example.com/outboxlab/pkg/rabbitmq"
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
	return append(ways, way{"raw publish, written together, channels 1", func() (rate float64, err error) {
		err = r.at(ctx, func(s *site) error {
			rate, err = s.publishTogether(ctx, r.events)
			return err
		})
		return rate, err
	}})
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

// publishTogether keeps 1000 messages unconfirmed, and adds 200 at a time.
func (s *site) publishTogether(ctx context.Context, n int) (perSecond float64, err error) {
	const window, chunk = 1000, 200
	var url rabbitmq.URL
	if err := url.UnmarshalText([]byte(s.AMQPURL)); err != nil {
		return 0, err
	}
	conn, ch, err := rabbitmq.Open(ctx, url, "bench", func(ch *amqp.Channel) error { return ch.Confirm(false) })
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	p := &publisher{ch: ch, window: window}
	began := time.Now()
	for sent := 0; sent < n; {
		for len(p.underWay) > window-chunk {
			if err := p.awaitOldest(ctx); err != nil {
				return 0, err
			}
		}
		err := conn.Together(func() error {
			for end := min(sent+chunk, n); sent < end; sent++ {
				if err := p.send(ctx, orderPlaced(sent+1)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	err = p.flush(ctx)
	return float64(n) / time.Since(began).Seconds(), err
}
