package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// This file answers: what does the relay do while the broker writes a batch to disk? As long as
// there is a backlog, a second hand settles the batch before and claims the next one. Two hands
// never publish at once, and to the order of events their claims are as different as those of two
// relays: a row is the one's or the other's, and each leaves alone what is behind the other's rows.

// publishOn lets both hands work until the session breaks or ctx ends.
func (r *Relay) publishOn(ctx context.Context, transport Transport) error {
	hands, ctx := errgroup.WithContext(ctx)
	hands.Go(func() error { return r.firstHand(ctx, transport) })
	hands.Go(func() error { return r.secondHand(ctx, transport) })
	return hands.Wait()
}

// firstHand publishes whatever there is, and waits when there is nothing.
func (r *Relay) firstHand(ctx context.Context, transport Transport) error {
	for ctx.Err() == nil {
		done, err := r.publishBatch(ctx, transport, r.batch)
		if err != nil {
			return err
		}
		if done.Published == r.batch {
			hint(r.backlog)
		}
		if done.Published > 0 {
			continue // there is probably more
		}
		if err := r.idle(ctx, transport); err != nil {
			return err
		}
	}
	return nil
}

// secondHand helps while batches are full. Otherwise it would only make them smaller.
func (r *Relay) secondHand(ctx context.Context, transport Transport) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.backlog:
		}
		for full := true; full && ctx.Err() == nil; {
			done, err := r.publishBatch(ctx, transport, r.batch)
			if err != nil {
				return err
			}
			full = done.Published == r.batch
		}
	}
}

// turnTimeout bounds how long claimed rows wait for the other hand's batch. With a broker that slow
// they had better be free for another relay.
const turnTimeout = 2 * time.Second

// publish sends a batch when the other hand is not sending one, and says what became of it. The
// batch is not sent if its turn does not come in time, or if the session is over by then.
func (r *Relay) publish(session context.Context, transport Transport, batch []Event) ([]error, error) {
	notSent := make([]error, len(batch))
	for i := range notSent {
		notSent[i] = errNotSent
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-time.After(turnTimeout):
		return notSent, nil
	}
	if session.Err() != nil {
		return notSent, nil
	}
	window := r.batch
	if r.oneByOne {
		window = 1
	}
	started := time.Now()
	results, err := transport.Publish(context.WithoutCancel(session), batch, window)
	r.tell(batch, results, time.Since(started))
	if channel := (*channelError)(nil); errors.As(err, &channel) {
		r.oneByOne = true
	} else if len(confirmed(batch, results)) > 0 {
		r.oneByOne = false
	}
	return results, err
}

// hint leaves a hint in a channel with room for one: many are as good as one.
func hint(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
