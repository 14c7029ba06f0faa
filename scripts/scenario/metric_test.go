package main

// Is a metric read by its whole name?

import (
	"strings"
	"testing"
)

func TestReadSeries(t *testing.T) {
	const page = `# TYPE relay_publish_failures_total counter
relay_publish_failures_total{reason="nacked"} 7
relay_publish_failures_total{reason="returned"} 208
relay_stale_settles_total 1e+03
`
	for series, want := range map[string]float64{
		`relay_publish_failures_total{reason="returned"}`: 208,
		`relay_publish_failures_total{reason="timeout"}`:  0,
		`relay_publish_failures_total`:                    0,
		`relay_stale_settles_total`:                       1000,
	} {
		got, err := readSeries(strings.NewReader(page), series)
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%s: %v, %v; want %v", series, got, err, want)
		}
	}
}
