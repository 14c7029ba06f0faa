// Package outbox answers: how does an event get written together with what it is about? By one
// INSERT into the outbox inside the business transaction. If that commits, the event exists and the
// relay will deliver it; if it does not, there is no event. Nothing here knows a broker.
package outbox

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Event is what a producer wants the world to know.
type Event struct {
	AggregateType string // what it is about, e.g. "order"
	AggregateID   string // which one, e.g. "17"
	Type          string // routing key and message type, e.g. "order.placed"
	Version       int    // of the payload's form, from 1
	Payload       any    // the message body, as JSON
	Traceparent   string // W3C trace context of the request, or ""
}

const insertEvent = `
INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, event_version, payload, traceparent)
VALUES ($1, $2, $3, $4, $5, $6)`

// Add writes e to the outbox in tx. The event gets its id from the database (a time-ordered UUID)
// and is on its way once tx commits.
func Add(ctx context.Context, tx pgx.Tx, e Event) error {
	payload, err := json.Marshal(e.Payload)
	if err != nil {
		return fmt.Errorf("outbox: encode payload of %s: %w", e.Type, err)
	}
	if _, err := tx.Exec(ctx, insertEvent,
		e.AggregateType, e.AggregateID, e.Type, e.Version, json.RawMessage(payload), e.Traceparent); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	return nil
}
