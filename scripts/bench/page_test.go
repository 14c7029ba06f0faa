package main

// The page must show what the file says, and mark what was measured with another yardstick than today's.

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestThePageShowsTheFile(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	results, err := readResults(filepath.Join(root, resultsFile))
	if err != nil {
		t.Fatal(err)
	}
	want, err := withNumbers(text, results)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, want) {
		t.Errorf("%s is not what %s says: go run ./scripts/bench --write", page, resultsFile)
	}
}

func TestNumbersOfAnotherYardstickAreMarked(t *testing.T) {
	p := parts[0]
	for yardstick, marked := range map[string]bool{p.yardstick: false, "something easier": true} {
		results := resultFile{Parts: map[string]partResult{p.name: {Yardstick: yardstick, Measures: []measure{series("relay", "events/s", []float64{1, 2, 3})}}}}
		shown := results.markdown()
		if !strings.Contains(shown, "| relay | 2 (1–3) events/s |") || strings.Contains(shown, "old yardstick") != marked {
			t.Errorf("%q, to be marked %v:\n%s", yardstick, marked, shown)
		}
	}
}

func TestAPageWithoutAPlaceForNumbersIsLeftAlone(t *testing.T) {
	for _, text := range []string{"nothing", numbersBegin, numbersEnd + numbersBegin} {
		if _, err := withNumbers([]byte(text), resultFile{}); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
