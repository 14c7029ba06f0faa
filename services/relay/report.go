package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"example.com/outboxlab/pkg/events"
)

// The relay logs one line for what was published of a batch, and one for each reason for which something was not.

// maxNamed is how many events a line about trouble names; the published ones are all named.
const maxNamed = 10

// report logs and counts the results of a batch. It returns how many events the broker has taken.
func (r *Relay) report(batch []Event, results []error, took time.Duration) (published int) {
	var taken, reasons []string
	byReason := map[string][]string{}
	debug := r.log.Enabled(context.Background(), slog.LevelDebug)
	for i, err := range results {
		if err == nil {
			published++
			if debug {
				taken = append(taken, events.ShortID(batch[i].EventID))
			}
			continue
		}
		if errors.Is(err, errNotSent) {
			continue
		}
		reason := err.Error()
		if attempt := (*attemptError)(nil); errors.As(err, &attempt) {
			r.metrics.failures.WithLabelValues(attempt.reason).Inc()
		}
		if byReason[reason] == nil {
			reasons = append(reasons, reason)
		}
		byReason[reason] = append(byReason[reason], events.ShortID(batch[i].EventID))
	}
	r.metrics.published(len(batch), published, took)
	if len(taken) > 0 {
		r.log.Debug(fmt.Sprintf("published %d: %s", published, strings.Join(taken, ", ")), "published", published)
	}
	for _, reason := range reasons {
		of, level, limit := byReason[reason], slog.LevelWarn, maxNamed
		if reason == errUnknown.Error() {
			// All are named: after a stop these are the ones that will come twice. During an outage the
			// probe is one of them again and again, which is said once.
			limit = len(of)
			if r.unconfirmed {
				level = slog.LevelDebug
			}
			r.unconfirmed = true
		}
		what := fmt.Sprintf("not published %d (%s)", len(of), reason)
		if reason == errUnknown.Error() {
			what = fmt.Sprintf("not confirmed %d, to be published again", len(of))
		}
		r.log.Log(context.Background(), level, what+": "+names(of, limit), "not_published", len(of), "reason", reason)
	}
	if published > 0 {
		r.unconfirmed = false
	}
	return published
}

// refusedEvery is how often rows that are still passed over are mentioned.
const refusedEvery = time.Minute

// reportRefused logs and counts what the database has refused since the last batch.
func (r *Relay) reportRefused() {
	r.metrics.passedOver.Set(float64(len(r.claimer.refusals.passedOver())))
	for _, what := range r.claimer.refusals.takeUnsaid() {
		r.metrics.refused.WithLabelValues(what.step).Add(float64(len(what.ids)))
		ids := make([]string, len(what.ids))
		for i, id := range what.ids {
			ids[i] = strconv.FormatInt(id, 10)
		}
		level, then := slog.LevelWarn, "counted as failed"
		if what.passed {
			then = "passed over, to be tried again within " + maxPassOver.String()
			if !what.isNew && !r.refusedSaid.every(refusedEvery) {
				level = slog.LevelDebug
			}
		}
		r.log.Log(context.Background(), level, fmt.Sprintf("%d rows: %s, %s: %s: %q", len(ids), cannot[what.step], then, names(ids, maxNamed), what.cause.Error()),
			"rows", len(ids), "step", what.step)
	}
}

// pace lets something be said now and then.
type pace struct {
	mu   sync.Mutex
	last time.Time
}

func (p *pace) every(d time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.last) < d {
		return false
	}
	p.last = time.Now()
	return true
}

// names lists up to limit of the ids.
func names(ids []string, limit int) string {
	if len(ids) > limit {
		ids = append(ids[:limit:limit], "…")
	}
	return strings.Join(ids, ", ")
}
