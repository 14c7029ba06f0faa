package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// This file answers: what can be watched from outside? What this relay does, counted as it happens,
// and the state of the outbox, asked of the database when somebody looks.

type metrics struct {
	publishedTotal prometheus.Counter
	failures       *prometheus.CounterVec
	stale          prometheus.Counter
	refused        *prometheus.CounterVec
	passedOver     prometheus.Gauge
	seconds        prometheus.Histogram
	batchSize      prometheus.Histogram
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		publishedTotal: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_published_total", Help: "Events that the broker has confirmed and not returned."}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_publish_failures_total", Help: "Failed attempts, by reason: returned, nacked, oversize, unencodable, refused, timeout."}, []string{"reason"}),
		stale: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_stale_settles_total", Help: "Results that came too late: the row was another relay's, or not pending any more."}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_refused_rows_total", Help: "Rows that the database refused, by step: read, mark, lease, attempt, delete."}, []string{"step"}),
		passedOver: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "relay_passed_over_rows", Help: "Pending rows that this relay leaves alone for now, because nothing can be written to them."}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "relay_publish_seconds", Help: "Time from the first send of a batch to its last confirm.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15)}),
		batchSize: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "relay_batch_size", Help: "Events of a batch.", Buckets: prometheus.ExponentialBuckets(1, 2, 14)}),
	}
	registry.MustRegister(m.publishedTotal, m.failures, m.stale, m.refused, m.passedOver, m.seconds, m.batchSize)
	return m
}

func (m *metrics) published(batch, published int, took time.Duration) {
	if batch > 0 {
		m.batchSize.Observe(float64(batch))
		m.seconds.Observe(took.Seconds())
	}
	m.publishedTotal.Add(float64(published))
}

func (m *metrics) settled(s Settled) { m.stale.Add(float64(s.Stale)) }

// backlogCollector reads the outbox at each scrape. A database that does not answer in time leaves
// its metrics out, which alerts on absence see.
type backlogCollector struct{ pool *pgxpool.Pool }

const scrapeTimeout = 2 * time.Second

var (
	descPending = prometheus.NewDesc("outbox_pending", "Events neither published nor dead.", nil, nil)
	descWaiting = prometheus.NewDesc("outbox_waiting", "Pending events that wait for their next try.", nil, nil)
	descDead    = prometheus.NewDesc("outbox_dead", "Events given up after the last attempt.", nil, nil)
	descOldest  = prometheus.NewDesc("outbox_oldest_age_seconds", "Age of the oldest pending event; 0 when there is none. One from the future has the age of its event id.", nil, nil)
)

func (c backlogCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descPending, descWaiting, descDead, descOldest} {
		ch <- d
	}
}

func (c backlogCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	b, err := readBacklog(ctx, c.pool)
	if err != nil {
		return
	}
	for desc, value := range map[*prometheus.Desc]float64{
		descPending: float64(b.Pending), descWaiting: float64(b.Waiting), descDead: float64(b.Dead), descOldest: b.OldestSeconds,
	} {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
}
