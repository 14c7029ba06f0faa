package main

// A comparison without servers: contestants with given numbers for each round.

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
)

// scripted makes contestants whose readings are given round by round, and notes in which order they run.
func scripted(order *[]string) func(name string, ceiling bool, values ...float64) contestant {
	return func(name string, ceiling bool, values ...float64) contestant {
		round := 0
		return contestant{name: name, ceiling: ceiling, run: func() ([]reading, error) {
			*order = append(*order, name)
			round++
			return rate(values[round-1], "events/s"), nil
		}}
	}
}

func TestContestantsTakeTurnsAndMeetTheBestCeiling(t *testing.T) {
	var order []string
	numbers := scripted(&order)
	relay := numbers("relay", false, 900, 800, 400)
	relay.atLeast = 0.75
	r := &rig{sizes: sizes{rounds: 3}, progress: io.Discard}
	// The lower ceiling is the higher one in the last round: its median decides.
	measures, err := r.compare(numbers("one connection", true, 500, 600, 900), numbers("two connections", true, 1000, 1000, 800), relay)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"one connection", "two connections", "relay"}; !slices.Equal(order, slices.Concat(want, want, want)) {
		t.Errorf("order %q", order)
	}
	m := find(measures, "relay")
	if m.Value != 800 || m.Min != 400 || m.Max != 900 {
		t.Errorf("median and range %v (%v–%v)", m.Value, m.Min, m.Max)
	}
	// Round by round: 900/1000, 800/1000, 400/800.
	if m.Of != "two connections" || m.Ratio != 0.8 || m.RatioMin != 0.5 || m.RatioMax != 0.9 || !*m.Met {
		t.Errorf("ratio %v (%v–%v) of %s, met %v", m.Ratio, m.RatioMin, m.RatioMax, m.Of, *m.Met)
	}
	if ceiling := find(measures, "one connection"); ceiling.Of != "" {
		t.Errorf("a ceiling is compared with %s", ceiling.Of)
	}
	var printed bytes.Buffer
	printTable(&printed, measures)
	if want := "80 (50–90) %"; !strings.Contains(printed.String(), want) || !strings.Contains(printed.String(), "800 (400–900) events/s") {
		t.Errorf("no %q in\n%s", want, printed.String())
	}
}
