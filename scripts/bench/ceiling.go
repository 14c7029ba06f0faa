package main

// Raw publishing is the ceiling for a relay: the same messages, persistent, mandatory and confirmed, sent to the same
// quorum queue by the client library alone, on connections like the relay's. The broker handles each connection in processes of its own, so there are ways
// with one connection and with two; some write messages to the network together, as the relay does.

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"example.com/outboxlab/pkg/rabbitmq"
)

// rawPublish is one way of raw publishing.
type rawPublish struct {
	connections int
	channels    int // on each connection
	window      int // unconfirmed messages on each channel
	together    int // messages in one write to the network
}

var rawPublishes = []rawPublish{
	{1, 1, 100, 1}, {1, 1, 1000, 1}, {1, 2, 100, 1}, {1, 2, 1000, 1}, {1, 1, 1000, 200},
	{2, 1, 100, 1}, {2, 1, 1000, 1}, {2, 1, 1000, 200},
}

// fillQueue is used where only the messages count, not how they got there.
var fillQueue = rawPublish{1, 1, 1000, 200}

func (w rawPublish) String() string {
	name := fmt.Sprintf("raw publish, connections %d, ", w.connections)
	if w.channels > 1 {
		name += fmt.Sprintf("channels %d, ", w.channels)
	}
	name += fmt.Sprintf("window %d", w.window)
	if w.together > 1 {
		name += fmt.Sprintf(", %d in one write", w.together)
	}
	return name
}

func (r *rig) rawPublishing(ctx context.Context) (contestants []contestant) {
	for _, way := range rawPublishes {
		contestants = append(contestants, contestant{name: way.String(), ceiling: true, run: r.inLab(ctx, func(s *site) ([]reading, error) {
			return s.publishRaw(ctx, r.events, way)
		})})
	}
	return contestants
}

// publishRaw publishes the messages of the orders 1 to n, and returns after the last confirm.
func (s *site) publishRaw(ctx context.Context, n int, way rawPublish) ([]reading, error) {
	publishers, err := s.openPublishers(ctx, way)
	if err != nil {
		return nil, err
	}
	return timed(n, "events/s", func() error {
		group, ctx := errgroup.WithContext(ctx)
		for i, p := range publishers {
			group.Go(func() error { return p.publish(ctx, i+1, n, len(publishers), way.together) })
		}
		return group.Wait()
	})
}

// openPublishers opens one publisher for each channel.
func (s *site) openPublishers(ctx context.Context, way rawPublish) (publishers []*publisher, err error) {
	var url rabbitmq.URL
	if err := url.UnmarshalText([]byte(s.AMQPURL)); err != nil {
		return nil, err
	}
	for range way.connections {
		conn, _, err := rabbitmq.Open(ctx, url, "bench", func(*amqp.Channel) error { return nil })
		if err != nil {
			return nil, err
		}
		s.publishing = append(s.publishing, conn)
		for range way.channels {
			ch, err := conn.Channel()
			if err != nil {
				return nil, err
			}
			if err := ch.Confirm(false); err != nil {
				return nil, err
			}
			publishers = append(publishers, &publisher{conn: conn, ch: ch, window: way.window})
		}
	}
	return publishers, nil
}
