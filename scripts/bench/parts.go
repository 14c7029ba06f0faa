package main

// What can be measured, and with which numbers?

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"example.com/outboxlab/pkg/service"
)

// part is one question with its measurements.
type part struct {
	name, question string
	settings       []string // of PostgreSQL, NAME = VALUE; they need a restart
	run            measuring
}

// What some parts need of PostgreSQL.
const (
	// commitTimes lets a part ask when a row's transaction was committed, instead of guessing from outside.
	commitTimes = "track_commit_timestamp = on"
	// statementTimes lets it ask how long the relay's own statements took, inside the server.
	statementTimes = "shared_preload_libraries = 'pg_stat_statements'"
	// busyVacuum looks every 5 s, not every minute, whether a table needs vacuum: an hour in some minutes.
	busyVacuum = "autovacuum_naptime = 5"
)

var parts = []part{
	{"relay-drain", "how fast does a relay empty the outbox, compared with publishing alone?", nil, relayDrain},
	{"relay-latency", "how long from an order's commit until the broker has confirmed its event?", []string{commitTimes}, relayLatency},
	{"relay-history", "does a claim get slower with everything that was published before?", []string{statementTimes}, relayHistory},
	{"relay-vacuum", "which autovacuum settings does the outbox need?", []string{statementTimes, busyVacuum}, relayVacuum},
	{"orders-wake", "what does it cost orders to wake the relay?", nil, ordersWake},
	{"loyalty-drain", "how fast does a consumer empty its queue, compared with receiving alone?", nil, loyaltyDrain},
	{"pipeline-latency", "how long from an order's commit until its points are committed?", []string{commitTimes}, pipelineLatency},
	{"pipeline-rate", "how many orders a second go through everything, HTTP to ledger, without a backlog?", nil, pipelineRate},
}

// sizes are the numbers of a run.
type sizes struct {
	events     int           // drained by the relay, once for each configuration
	history    int           // drained in one go
	slice      int           // how many of them are timed together
	messages   int           // drained by loyalty
	oneByOne   int           // drained by loyalty one at a time
	steady     time.Duration // of placing orders at ordersPerSecond
	round      time.Duration // of placing orders flat out
	probe      time.Duration // of one rate in the search
	sustain    time.Duration // of the rate found
	vacuum     time.Duration // of writing and draining under one setting
	polls      int           // empty claims that are timed
	steps      int           // of the search
	rounds     int           // repetitions whose median counts
	batchSizes []int

	shareServers bool
}

var full = sizes{
	events: 50_000, history: 1_000_000, slice: 100_000, messages: 50_000, oneByOne: 5_000,
	steady: time.Minute, round: 5 * time.Second, probe: 8 * time.Second, vacuum: 90 * time.Second,
	polls: 100, steps: 6, rounds: 5, batchSizes: []int{100, 500, 1000},
}

var quick = sizes{
	events: 300, history: 1000, slice: 200, messages: 300, oneByOne: 50,
	steady: time.Second, round: 200 * time.Millisecond, probe: 500 * time.Millisecond, sustain: time.Second,
	vacuum: 500 * time.Millisecond, polls: 5, steps: 2, rounds: 1, batchSizes: []int{defaultBatch},
	shareServers: true,
}

// ordersPerSecond is the load under which latency is measured.
const ordersPerSecond = 50

// parse reads the command line. It returns "" if --help was asked for and printed.
func parse(cli *CLI, args []string, stdout io.Writer) (string, error) {
	helped := false
	parser, err := kong.New(cli, kong.Name("bench"), kong.Writers(stdout, stdout), kong.Exit(func(int) { helped = true }),
		kong.Description("Measures the relay, the consumer and the whole pipeline on servers of its own.\n\n"+examples))
	if err != nil {
		return "", err
	}
	_, err = parser.Parse(args)
	switch {
	case helped:
		return "", nil
	case err != nil:
		return "", service.Usagef("%w (see --help)", err)
	case cli.Sustain < time.Second:
		return "", service.Usagef("--sustain=%v: must be 1s or more", cli.Sustain)
	}
	return "bench", nil
}

// choose finds parts by the beginning of their names; all when none is given.
func choose(names []string) ([]part, error) {
	if len(names) == 0 {
		return parts, nil
	}
	var chosen []part
	for _, p := range parts {
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(p.name, name) }) {
			chosen = append(chosen, p)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(parts, func(p part) bool { return strings.HasPrefix(p.name, name) }) {
			return nil, service.Usagef("there is no part %q (see --list)", name)
		}
	}
	return chosen, nil
}

func list(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, p := range parts {
		fmt.Fprintf(w, "%s\t%s\n", p.name, p.question)
	}
	_ = w.Flush() // nothing to do about a reader that went away
}
