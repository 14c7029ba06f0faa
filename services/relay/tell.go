package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"example.com/outboxlab/pkg/events"
)

// This file answers: what does the relay say about a batch? One line for what was published, and
// one for each reason for which something was not.

// maxNamed is how many events a line about trouble names; the published ones are all named.
const maxNamed = 10

// confirmed are the events that the broker has taken.
func confirmed(batch []Event, results []error) []Event {
	var taken []Event
	for i, e := range batch {
		if results[i] == nil {
			taken = append(taken, e)
		}
	}
	return taken
}

// tell logs and counts the results of a batch.
func (r *Relay) tell(batch []Event, results []error, took time.Duration) {
	published := confirmed(batch, results)
	r.metrics.published(len(batch), len(published), took)
	if len(published) > 0 && r.log.Enabled(context.Background(), slog.LevelDebug) {
		r.log.Debug(fmt.Sprintf("published %d: %s", len(published), names(published, len(published))), "published", len(published))
	}
	var reasons []string
	byReason := map[string][]Event{}
	for i, e := range batch {
		err := results[i]
		if err == nil || errors.Is(err, errNotSent) {
			continue
		}
		reason := err.Error()
		if attempt := (*attemptError)(nil); errors.As(err, &attempt) {
			r.metrics.failures.WithLabelValues(attempt.reason).Inc()
		}
		if byReason[reason] == nil {
			reasons = append(reasons, reason)
		}
		byReason[reason] = append(byReason[reason], e)
	}
	for _, reason := range reasons {
		of, level, limit := byReason[reason], slog.LevelWarn, maxNamed
		if reason == errUnknown.Error() {
			// All are named: after a stop these are the ones that will come twice. During an outage the
			// probe is one of them again and again, which is told once.
			limit = len(of)
			if r.unconfirmed {
				level = slog.LevelDebug
			}
			r.unconfirmed = true
		}
		r.log.Log(context.Background(), level, fmt.Sprintf("not published %d (%s): %s", len(of), reason, names(of, limit)),
			"not_published", len(of), "reason", reason)
	}
	if len(published) > 0 {
		r.unconfirmed = false
	}
}

// names lists the short ids of up to limit events.
func names(batch []Event, limit int) string {
	var list strings.Builder
	for i, e := range batch {
		if i == limit {
			list.WriteString(", …")
			break
		}
		if i > 0 {
			list.WriteString(", ")
		}
		list.WriteString(events.ShortID(e.EventID))
	}
	return list.String()
}
