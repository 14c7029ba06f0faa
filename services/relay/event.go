package main

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
)

// This file answers: what does the relay carry, and what does it ask of the other side?

// Event is one outbox row on its way out, column by column as selectBatch reads it.
type Event struct {
	ID            int64
	EventID       uuid.UUID
	AggregateType string
	AggregateID   string
	Type          string
	Version       int32
	Payload       []byte // nil if it is too large to be sent
	Size          int32  // of the payload, in bytes
	TenantID      string
	Traceparent   string
	CreatedAt     time.Time
	AttemptCount  int32
}

// columns are where selectBatch's columns go.
func (e *Event) columns() []any {
	return []any{&e.ID, &e.EventID, &e.AggregateType, &e.AggregateID, &e.Type, &e.Version, &e.Payload, &e.Size,
		&e.TenantID, &e.Traceparent, &e.CreatedAt, &e.AttemptCount}
}

// aggregate names what the event is about; events of one aggregate leave in order.
type aggregate struct{ kind, id string }

func (e Event) aggregate() aggregate { return aggregate{e.AggregateType, e.AggregateID} }

// Transport is where events go. One Transport is one session: when it breaks, a new one is opened.
type Transport interface {
	// Publish sends the events and waits, for a bounded time, until the fate of each is known. Of one
	// aggregate at most one event is under way at any moment, in the order given; of all at most window.
	//
	// It returns one result per event: nil only if the receiving side has taken responsibility for it;
	// *attemptError if it did not and this event is to blame; otherwise errNotSent, or errUnknown.
	// The error says that the session is broken; results of events confirmed before that still hold.
	Publish(ctx context.Context, batch []Event, window int) (results []error, err error)
	// Broken is closed when the session has ended by itself.
	Broken() <-chan struct{}
	// Why says why it has: in the other side's words, if it gave a reason.
	Why() error
	Close()
}

// Neither is an attempt: it is not the event's fault.
var (
	// errNotSent: the turn has not come to it. An earlier event of its aggregate was not published, or
	// the time was up, or the session broke.
	errNotSent = errors.New("not sent")
	// errUnknown: sent, and not confirmed before the session broke. The other side may or may not
	// have it, so it will be sent again.
	errUnknown = errors.New("not confirmed")
)

// orderIDs names the orders of a batch, for crash flags.
func orderIDs(batch []Event) []string {
	ids := make([]string, len(batch))
	for i, e := range batch {
		ids[i] = e.AggregateID
	}
	return ids
}

// confirmedIDs names those whose events the broker has taken.
func confirmedIDs(batch []Event, results []error) []string {
	ids := make([]string, 0, len(results))
	for i, err := range results {
		if err == nil {
			ids = append(ids, batch[i].AggregateID)
		}
	}
	return ids
}
