package main

// Does a comparison mean what it says?

import (
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		words string
		got   []float64
		want  bool
	}{
		{"orders = 2", []float64{2}, true},
		{"orders = 2", []float64{3}, false},
		{"orders != 2", []float64{3}, true},
		{"orders < 2", []float64{2}, false},
		{"orders <= 2", []float64{2}, true},
		{"orders > 2", []float64{2}, false},
		{"orders >= 2", []float64{2}, true},
		{"orders", []float64{0}, false}, // without comparison: > 0
		{"orders", []float64{1}, true},
		{"orders = 2", nil, false},
		{"waits 1 at-least 1 2", []float64{0.9, 30}, true},
		{"waits 1 at-least 1 2", []float64{0.4, 2}, false}, // too early
		{"waits 1 at-least 1 2", []float64{1, 1.4}, false},
		{"waits 1 at-least 1 2", []float64{1}, false}, // one is missing
		{"waits 1 at-least 1 2", []float64{1, 2, 3}, false},
	} {
		cond, err := parseCondition(strings.Fields(c.words))
		if err != nil {
			t.Fatalf("%s: %v", c.words, err)
		}
		if got := cond[0].compare(c.got); got != c.want {
			t.Errorf("%s, found %v: %v, want %v", c.words, c.got, got, c.want)
		}
	}
}

func TestUnmetShowsBoth(t *testing.T) {
	got := (&unmet{words: "points 101 = 120", found: "240"}).Error()
	if got != "expected points 101 = 120, found 240" {
		t.Error(got)
	}
}
