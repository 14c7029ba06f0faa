package events

import "github.com/google/uuid"

// ShortID is how log lines name an event: the last 8 hex digits of its id. The first 8 of a
// version 7 UUID are the clock, and the same for all events of one minute.
func ShortID(id uuid.UUID) string {
	s := id.String()
	return s[len(s)-8:]
}
