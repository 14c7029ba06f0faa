// What do the running services and the broker say about themselves? The measures that read /metrics and the broker's
// list of connections.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"example.com/outboxlab/scripts/blackbox"
)

func askMetric(ctx context.Context, s *stage, args []string) ([]float64, error) {
	p, err := s.running(args[0])
	if err != nil {
		return nil, err
	}
	page, err := blackbox.Get(ctx, p.Address()+"/metrics")
	if err != nil {
		return nil, err
	}
	defer func() { _ = page.Close() }()
	return readSeries(page, args[1])
}

// readSeries finds one series, such as relay_publish_failures_total{reason="returned"}, in Prometheus' text format.
// A series that is not there has not counted anything yet: 0.
func readSeries(page io.Reader, series string) ([]float64, error) {
	lines := bufio.NewScanner(page)
	for lines.Scan() {
		text, found := strings.CutPrefix(lines.Text(), series+" ")
		if !found {
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is %q", series, text)
		}
		return []float64{value}, nil
	}
	return []float64{0}, lines.Err()
}

// askConnections counts what the management API lists: the broker notes a connection when it opens and when it ends.
func askConnections(ctx context.Context, s *stage, args []string) ([]float64, error) {
	page, err := blackbox.Get(ctx, s.lab.ManagementURL+"/api/vhosts/"+url.PathEscape(s.lab.Vhost)+"/connections")
	if err != nil {
		return nil, err
	}
	defer func() { _ = page.Close() }()
	var connections []struct {
		Properties struct {
			Name string `json:"connection_name"`
		} `json:"client_properties"`
	}
	if err := json.NewDecoder(page).Decode(&connections); err != nil {
		return nil, fmt.Errorf("the broker's list of connections: %w", err)
	}
	n := 0
	for _, c := range connections {
		if c.Properties.Name == args[0] {
			n++
		}
	}
	return number(n, nil)
}
