package main

// All parts of the benchmark, with the numbers of a full run and of a quick one.

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
	// yardstick is what the numbers are compared with and how. Change it when that changes: numbers that were measured
	// with another one are marked.
	yardstick string
	settings  []string // of PostgreSQL, NAME = VALUE; they need a restart
	run       measuring
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
	{"relay-drain", "How fast does a relay empty the outbox?",
		"the best raw publishing with one connection and with two, in the same five rounds; the first batches are not counted", nil, relayDrain},
	{"relay-hot", "How much slower is a relay if many events are of few aggregates?",
		"an aggregate for each event, claim tx, in the same five rounds", nil, relayHot},
	{"relay-latency", "How long does it take from an order's commit until the broker has confirmed its event?",
		"polling only, at 50 orders a second, in the same five rounds", []string{commitTimes}, relayLatency},
	{"relay-history", "Does a claim get slower with everything that was published before?",
		"its own beginning, in one run", []string{statementTimes}, relayHistory},
	{"relay-vacuum", "Which autovacuum settings does the outbox need?",
		"other settings, in one run each", []string{statementTimes, busyVacuum}, relayVacuum},
	{"orders-intake", "How fast are orders accepted?",
		"a loop with the two inserts alone, with 8 and 32 clients, in the same five rounds", nil, ordersIntake},
	{"orders-wake", "What does it cost orders to wake the relay?",
		"the same without wake-up, in the same five rounds", nil, ordersWake},
	{"loyalty-drain", "How fast does a consumer empty its queue?",
		"the best raw receiving with prefetch 100, 500, 1000 and 2000, in the same five rounds; a transaction for each message, 10 at the same time", nil, loyaltyDrain},
	{"pipeline-latency", "How long does it take from an order's commit until its points are committed?",
		"a target, at 50 orders a second, in five rounds", []string{commitTimes}, pipelineLatency},
	{"pipeline-rate", "How many orders a second go through everything, HTTP to ledger, without a backlog?",
		"orders accepted flat out, in the same five rounds", nil, pipelineRate},
}

// sizes are the numbers of a run.
type sizes struct {
	events     int           // drained by the relay, once for each configuration and round
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
	rounds     int           // in which everything that is compared takes its turn
	batchSizes []int

	shareServers bool
}

var full = sizes{
	events: 50_000, history: 1_000_000, slice: 100_000, messages: 50_000, oneByOne: 5_000,
	steady: 20 * time.Second, round: 5 * time.Second, probe: 8 * time.Second, vacuum: 90 * time.Second,
	polls: 100, steps: 5, rounds: 5, batchSizes: []int{100, 500, 1000},
}

var quick = sizes{
	events: 300, history: 1000, slice: 200, messages: 300, oneByOne: 100,
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
