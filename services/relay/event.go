package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/outboxlab/pkg/events"
)

// This file answers: what does the relay carry, and what does it ask of the other side?

// Event is one outbox row on its way out.
type Event struct {
	ID            int64
	EventID       uuid.UUID
	AggregateType string
	AggregateID   string
	Type          string
	Version       int32
	Payload       []byte
	TenantID      string
	Traceparent   string
	CreatedAt     time.Time
}

// Transport is where events go.
type Transport interface {
	// Publish sends the events and waits, for a bounded time, until the fate of each is known.
	// It returns one result per event: nil only if the receiving side has taken responsibility for it.
	// The error says that the session is broken; results of events confirmed before that still hold.
	Publish(ctx context.Context, batch []Event) (results []error, err error)
	// Broken is closed when the session has ended by itself.
	Broken() <-chan struct{}
	Close()
}

// failure is an event that stays in the outbox, and why.
type failure struct {
	Event
	err error
}

func split(batch []Event, results []error) (published []Event, failed []failure) {
	for i, e := range batch {
		if results[i] == nil {
			published = append(published, e)
		} else {
			failed = append(failed, failure{e, results[i]})
		}
	}
	return published, failed
}

// tell logs what became of a batch.
func (r *Relay) tell(published []Event, failed []failure) {
	if len(published) > 0 && r.log.Enabled(context.Background(), slog.LevelDebug) {
		ids := make([]string, len(published))
		for i, e := range published {
			ids[i] = events.ShortID(e.EventID)
		}
		r.log.Debug(fmt.Sprintf("published %d: %s", len(ids), strings.Join(ids, ", ")), "published", len(ids), "events", ids)
	}
	for _, f := range failed {
		r.log.Warn(fmt.Sprintf("%s not published: %v", events.ShortID(f.EventID), f.err), "event", f.EventID, "err", f.err)
	}
}

// orderIDs names the orders of a batch, for crash flags.
func orderIDs(batch []Event) []string {
	ids := make([]string, len(batch))
	for i, e := range batch {
		ids[i] = e.AggregateID
	}
	return ids
}
