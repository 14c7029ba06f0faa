package main

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.com/outboxlab/pkg/service"
)

// This file answers: what can be measured from outside? GET /metrics has it.

type metrics struct {
	registry *prometheus.Registry

	consumed, awarded, duplicates, conflicts, rejected, retried, dead prometheus.Counter
	batchSize, handleSeconds, awardLatency                            prometheus.Histogram
	queueDepth, dlqDepth                                              prometheus.Gauge
}

// newMetrics makes the metrics of one consumer, on a registry of its own.
func newMetrics() *metrics {
	m := &metrics{registry: service.NewMetrics()}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		m.registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
		m.registry.MustRegister(h)
		return h
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		g.Set(math.NaN()) // not known yet
		m.registry.MustRegister(g)
		return g
	}
	m.consumed = counter("loyalty_consumed_total", "Deliveries handled, repeats included.")
	m.awarded = counter("loyalty_awarded_total", "Deliveries that awarded an order.")
	m.duplicates = counter("loyalty_duplicates_total", "Deliveries of messages handled, or of orders awarded, before.")
	m.conflicts = counter("loyalty_conflicts_total", "Messages refused because their order id was awarded to another customer or with other points.")
	m.rejected = counter("loyalty_rejected_total", "Messages refused for good, and sent to the dead-letter queue.")
	m.retried = counter("loyalty_retried_total", "Failed deliveries given back to be tried again.")
	m.dead = counter("loyalty_dead_total", "Messages that failed for the last time, which the broker sends to the dead-letter queue.")
	m.batchSize = histogram("loyalty_batch_size", "Messages handled together.", prometheus.ExponentialBuckets(1, 2, 12))
	m.handleSeconds = histogram("loyalty_handle_seconds", "From taking a batch to having settled it.", prometheus.ExponentialBuckets(0.0005, 2, 16))
	m.awardLatency = histogram("loyalty_award_latency_seconds", "From the order's commit, by its event's time, to the award's.", prometheus.ExponentialBuckets(0.001, 2, 18))
	m.queueDepth = gauge("loyalty_queue_depth", "Messages ready in the queue; NaN when it cannot be asked.")
	m.dlqDepth = gauge("loyalty_dlq_depth", "Messages ready in the dead-letter queue; NaN when it cannot be asked.")
	return m
}

// oldestOrder bounds the latencies that are believed. An event time before that was typed, and one of
// the year 1 would spoil the sum for good.
const oldestOrder = 365 * 24 * time.Hour

// observeAward notes how long after its order's commit the award of a delivery came.
func (m *metrics) observeAward(d *delivery) {
	text, _ := d.Headers["x-event-time"].(string)
	at, err := time.Parse(time.RFC3339Nano, text)
	if latency := time.Since(at); err == nil && latency < oldestOrder {
		m.awardLatency.Observe(max(0, latency.Seconds())) // below 0: two clocks
	}
}
