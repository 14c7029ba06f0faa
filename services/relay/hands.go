package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// This file answers: what does the relay do while the broker writes a batch to disk? As long as
// there is a backlog, it has two hands. Each takes batches of its own through claim, publish and settle;
// while one publishes, the other settles its last batch and claims its next. They never publish at once,
// and to the order of events their claims are as different as those of two relays: a row is the one's or
// the other's, and each leaves alone what is behind the other's rows.

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
		if done.Published+done.Failed+done.Aside > 0 {
			continue // there is probably more
		}
		if err := r.idle(ctx, transport); err != nil {
			return err
		}
	}
	return nil
}

// secondHand publishes a batch for each full one that went out before it: there is probably another.
// Without a backlog it would only make batches smaller.
func (r *Relay) secondHand(ctx context.Context, transport Transport) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.backlog:
		}
		if _, err := r.publishBatch(ctx, transport, r.batch); err != nil {
			return err
		}
		hint(r.wake) // the first hand may have found nothing but what is behind these events
	}
}

// turnTimeout bounds how long claimed rows wait for the other hand's batch. With a broker that slow
// they had better be free for another relay.
const turnTimeout = 2 * time.Second

// publish sends a batch when the other hand is not sending one, and says what became of it. The
// batch is not sent if its turn does not come in time, or if the session is over by then: the turn
// in which a session breaks is never passed on, and ends with that session (Relay.session).
func (r *Relay) publish(session context.Context, transport Transport, batch []Event) (results []error, err error) {
	results = make([]error, len(batch))
	for i := range results {
		results[i] = errNotSent
	}
	select {
	case r.turn <- struct{}{}:
	case <-session.Done():
		return results, nil
	case <-time.After(turnTimeout):
		r.log.Debug(fmt.Sprintf("given back %d: the broker is slow", len(batch)))
		return results, nil
	}
	defer func() {
		if err == nil {
			<-r.turn
		}
	}()
	if session.Err() != nil {
		return results, nil
	}
	window := r.batch
	if r.oneByOne {
		window = 1
	}
	started := time.Now()
	results, err = transport.Publish(context.WithoutCancel(session), batch, window)
	published := r.tell(batch, results, time.Since(started))
	if channel := (*channelError)(nil); errors.As(err, &channel) {
		r.oneByOne = true
	} else if len(batch) > 1 && published > 0 { // the probe alone says nothing of the others
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
