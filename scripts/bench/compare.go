package main

// Whatever is compared takes turns, round after round: the speed of a shared machine changes within seconds, and must not
// make one contestant look better than another.

import (
	"context"
	"fmt"
	"time"
)

// contestant is one of several ways to do the same thing.
type contestant struct {
	name    string
	ceiling bool    // the best contestant of these is what the others are compared with
	atLeast float64 // aim for the ratio; 0 means that there is none
	run     func() ([]reading, error)
}

// reading is one number of one round. A contestant's first reading is the one that is compared.
type reading struct {
	what   string // added to the contestant's name
	value  float64
	unit   string
	atMost float64 // aim for the median; 0 means that there is none
}

// compare returns one measure for each reading of each contestant.
func (r *rig) compare(contestants ...contestant) (measures []measure, err error) {
	results, err := r.inRounds(contestants)
	if err != nil {
		return nil, err
	}
	var best measure
	for i, c := range contestants {
		if c.ceiling && results[i][0].Value > best.Value {
			best = results[i][0]
		}
	}
	for i, c := range contestants {
		if !c.ceiling && best.Value > 0 {
			results[i][0] = results[i][0].to(best)
		}
		if c.atLeast > 0 {
			results[i][0] = results[i][0].atLeast(c.atLeast)
		}
		measures = append(measures, results[i]...)
	}
	return measures, nil
}

// inRounds runs each contestant once in every round.
func (r *rig) inRounds(contestants []contestant) (results [][]measure, err error) {
	readings := make([][][]reading, len(contestants)) // by contestant and round
	for round := range r.rounds {
		for i, c := range contestants {
			got, err := c.run()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			r.note("round %d of %d: %s%s: %s %s", round+1, r.rounds, c.name, got[0].what, showValue(got[0].value), got[0].unit)
			readings[i] = append(readings[i], got)
		}
	}
	for i, rounds := range readings {
		results = append(results, summarize(contestants[i].name, rounds))
	}
	return results, nil
}

// summarize turns the readings of all rounds into one measure each.
func summarize(name string, rounds [][]reading) (measures []measure) {
	for k, first := range rounds[0] {
		var values []float64
		for _, readings := range rounds {
			values = append(values, readings[k].value)
		}
		m := series(name+first.what, first.unit, values)
		if first.atMost > 0 {
			m = m.atMost(first.atMost)
		}
		measures = append(measures, m)
	}
	return measures
}

// inLab makes a contestant's run of something that needs a lab of its own.
func (r *rig) inLab(ctx context.Context, do func(s *site) ([]reading, error)) func() ([]reading, error) {
	return func() (readings []reading, err error) {
		err = r.at(ctx, func(s *site) (err error) {
			readings, err = do(s)
			return err
		})
		return readings, err
	}
}

// rate is the reading of a contestant that only tells how fast it was.
func rate(perSecond float64, unit string) []reading {
	return []reading{{value: perSecond, unit: unit}}
}

// timed does n things and tells how many a second they were.
func timed(n int, unit string, do func() error) ([]reading, error) {
	began := time.Now()
	err := do()
	return rate(float64(n)/time.Since(began).Seconds(), unit), err
}
