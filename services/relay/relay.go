package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/pkg/crash"
	"example.com/outboxlab/pkg/postgres"
	"example.com/outboxlab/pkg/service"
)

// The relay's loop, in which an event gets from the outbox to the broker without being lost:
//
//	claim    take pending rows                            crash: they become free again
//	publish  send, wait for each one's own confirm        crash: published again, same event id
//	settle   mark the confirmed ones                      crash: as above, until the commit
//
// A row is marked only by the relay that holds it, and only after the broker has it. Rows are
// claimed by state (pending), never by "last id seen": a lower id can be committed after a higher
// one. Claiming is in claim.go and settling in settle.go; the walk goes on to rabbitmq.go.

// Relay moves events from the outbox to a transport.
type Relay struct {
	pool        *pgxpool.Pool
	open        func(context.Context) (Transport, error)
	claimer     *Claimer
	batch       int           // most rows claimed together
	poll        time.Duration // how long to wait when there is nothing to do and nobody wakes us
	maxAttempts int
	wake        chan struct{} // a hint that there is something to do
	log         *slog.Logger
	metrics     *metrics

	connected   atomic.Bool
	oneByOne    bool // a session ended because of one event, and it is not known yet which
	refusedSaid pace // when rows that are passed over were last mentioned
	unconfirmed bool // events without a confirm have been reported, and nothing has been confirmed since
}

// Ready tells whether database and broker can be used.
func (r *Relay) Ready(ctx context.Context) error {
	if !r.connected.Load() {
		return errors.New("no session with the broker")
	}
	return postgres.Ready(ctx, r.pool, "orders.outbox")
}

// needs is what a relay does with its table.
var needs = []postgres.Need{
	{Privilege: "SELECT", Table: "orders.outbox"}, {Privilege: "UPDATE", Table: "orders.outbox"}, {Privilege: "DELETE", Table: "orders.outbox"},
}

// askDatabase tells what is wrong with the database before anything depends on it.
func (r *Relay) askDatabase(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	return postgres.Ready(ctx, r.pool, "orders.outbox", needs...)
}

// session publishes over one transport session until that breaks or ctx ends. A batch under way
// when ctx ends is finished and settled: its publishing is bounded in time.
//
// It begins with a probe of one row. A broker under an alarm lets everybody connect and confirms
// nothing; as long as that lasts one row is tried now and then, and all others are left alone.
func (r *Relay) session(ctx context.Context, life *service.Life) error {
	if err := r.askDatabase(ctx); err != nil {
		return err
	}
	transport, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer transport.Close()
	defer r.connected.Store(false)
	limit := 1
	for ctx.Err() == nil {
		// A session's first rows must be rows that can be marked: sessions that end again and again would publish them each time.
		done, err := r.publishBatch(ctx, transport, limit, limit == 1)
		if err != nil {
			return err
		}
		r.connected.Store(true)
		life.Ready()
		if done.Published+done.Failed > 0 { // the broker answers, whatever it says
			life.Worked()
			limit = r.batch
		}
		if done.Published+done.Failed+done.Refused > 0 {
			continue // there is probably more
		}
		if err := r.idle(ctx, transport); err != nil {
			return err
		}
	}
	return nil
}

// idle waits until there may be something to do: a wake-up, or the next poll, which catches what a
// lost wake-up missed and the rows whose waiting time is over.
func (r *Relay) idle(ctx context.Context, transport Transport) error {
	timer := time.NewTimer(r.poll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-r.wake:
	case <-timer.C:
	case <-transport.Broken():
		return transport.Why()
	}
	return nil
}

// databaseTimeout bounds what a claim or a settle asks of the database.
const databaseTimeout = 5 * time.Second

// publishBatch takes up to limit rows through claim, publish and settle. Its error ends the session;
// what had been confirmed by then has been marked all the same.
func (r *Relay) publishBatch(session context.Context, transport Transport, limit int, rehearse bool) (Settled, error) {
	// A stop request must not cut a batch in half: what has been sent should also be marked.
	ctx := context.WithoutCancel(session)
	defer r.reportRefused()
	claim, refused, err := r.claim(ctx, limit, rehearse)
	if err != nil || len(claim.Events) == 0 {
		return Settled{Refused: refused}, err
	}
	crash.At(crash.RelayAfterClaim, orderIDs(claim.Events)...)

	results, broken := r.publish(ctx, transport, claim.Events)
	confirmed := confirmedIDs(claim.Events, results)
	crash.At(crash.RelayAfterPublish, confirmed...)

	settling, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	settled, err := claim.Settle(settling, r.pool, results, r.maxAttempts)
	settled.Refused += refused
	r.metrics.settled(settled)
	if settled.Stale > 0 {
		r.log.Warn(fmt.Sprintf("%d events are another relay's by now, or not pending any more; nothing changed", settled.Stale), "stale", settled.Stale)
	}
	if err != nil {
		return settled, errors.Join(broken, err)
	}
	crash.At(crash.RelayAfterMark, confirmed...)
	return settled, broken
}

// publish sends a batch and says what became of each event. After a session that ended because of one event it
// sends them one by one, until a whole batch has passed.
func (r *Relay) publish(ctx context.Context, transport Transport, batch []Event) (results []error, err error) {
	window := r.batch
	if r.oneByOne {
		window = 1
	}
	started := time.Now()
	results, err = transport.Publish(ctx, batch, window)
	published := r.report(batch, results, time.Since(started))
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
