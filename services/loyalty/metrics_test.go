package main

import (
	"fmt"
	"net/http"
	"regexp"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/scripts/lab"
)

// One message of every fate, and the numbers that tell of them.
func TestMetricsTellWhatBecameOfMessages(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	lab.Exec(t, s.db, `ALTER TABLE loyalty.ledger ADD CONSTRAINT none CHECK (order_id <> 3)`)
	r := s.loyalty(t)
	awarded, malformed, failing := placed(1), placed(2), placed(3)
	awarded.Headers = amqp.Table{"x-event-time": time.Now().Add(-time.Minute).UTC().Format(time.RFC3339Nano)}
	malformed.Body = nil
	ancient := placed(4)
	ancient.Headers = amqp.Table{"x-event-time": "0001-01-01T00:00:00Z"} // counts, but not as a latency
	s.publish(t, awarded, awarded, ancient, malformed, failing)
	lab.Poll(t, awaitLimit, "both dead", func() (bool, error) { // six attempts take 15 s
		return lab.Ready(t, s.ch, topology.DeadLetterQueue) == 2, nil
	})
	for _, pattern := range []string{
		`loyalty_consumed_total 10`, `loyalty_awarded_total 2`, `loyalty_duplicates_total 1`, `loyalty_rejected_total 1`,
		`loyalty_retried_total 5`, `loyalty_dead_total 1`, `loyalty_batch_size_sum 10`, `loyalty_handle_seconds_count \d+`,
		`loyalty_award_latency_seconds_count 1`, `loyalty_award_latency_seconds_sum (6\d|[7-9]\d|\d{3,})\.\d+`,
		`loyalty_queue_depth 0`, `loyalty_dlq_depth 2`,
	} {
		awaitMetric(t, r, pattern)
	}
}

// awaitMetric waits until the service's metrics have a line that matches the pattern.
func awaitMetric(t *testing.T, r *lab.Running, pattern string) {
	t.Helper()
	line := regexp.MustCompile(`(?m)^` + pattern + `$`)
	lab.Poll(t, awaitLimit, pattern, func() (bool, error) {
		status, body, err := get(r.URL() + "/metrics")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		return line.MatchString(body), err
	})
}
