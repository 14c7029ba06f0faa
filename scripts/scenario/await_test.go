package main

// Does a wait end for the right reason?

import (
	"context"
	"errors"
	"testing"
	"time"
)

// asked is a condition that answers the given numbers, one at each look, and the last one from then on; it wants > 0.
func asked(answers ...float64) condition {
	return condition{{op: ">", want: []float64{0}, measure: measure{ask: func(context.Context, *stage, []string) ([]float64, error) {
		now := answers[:1]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		return now, nil
	}}}}
}

func TestAwait(t *testing.T) {
	for name, c := range map[string]struct {
		cond, while condition
		want        string // the error, "" = none
	}{
		"it comes true":                    {asked(0, 0, 1), nil, ""},
		"it never does":                    {asked(0), nil, "expected it, found 0 after 50ms"},
		"the other holds meanwhile":        {asked(0, 0, 1), asked(1), ""},
		"the other does not hold for once": {asked(0, 0, 0, 1), asked(1, 1, 0, 1), "expected the other all the while, found 0"},
		"the other did not hold at all":    {asked(1), asked(0), "expected the other all the while, found 0"},
	} {
		t.Run(name, func(t *testing.T) {
			w := waiting{cond: c.cond, words: "it", while: c.while, whileWords: "the other", within: 50 * time.Millisecond, every: time.Millisecond}
			_, err := (&stage{}).await(t.Context(), w)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (!errors.As(err, new(*unmet)) || err.Error() != c.want):
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
