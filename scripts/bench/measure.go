package main

// A measure is the median of some rounds with its range, and what it is compared with. Ratios are shown first: they are
// what another machine will see, too.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

// measure is one figure. Without a range it was measured once.
type measure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"` // median of the rounds
	Min   float64 `json:"min,omitempty"`
	Max   float64 `json:"max,omitempty"`
	Unit  string  `json:"unit"`
	// Ratio is the median of the ratios in each round; of the values, where they are not of the same rounds.
	Ratio    float64 `json:"ratio,omitempty"`
	RatioMin float64 `json:"ratioMin,omitempty"`
	RatioMax float64 `json:"ratioMax,omitempty"`
	Of       string  `json:"of,omitempty"` // the name of another measure
	Target   string  `json:"target,omitempty"`
	Met      *bool   `json:"met,omitempty"` // by the median

	rounds []float64
}

// series is the measure of these values.
func series(name, unit string, values []float64) measure {
	m := measure{Name: name, Unit: unit, Value: median(values), rounds: values}
	if len(values) > 1 {
		m.Min, m.Max = slices.Min(values), slices.Max(values)
	}
	return m
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// find returns the measure of that name, which must be there.
func find(measures []measure, name string) measure {
	return measures[slices.IndexFunc(measures, func(m measure) bool { return m.Name == name })]
}

// to compares m with another measure, round by round: in one round both met the same machine.
func (m measure) to(other measure) measure {
	m.Of = other.Name
	if len(m.rounds) == 0 || len(m.rounds) != len(other.rounds) {
		m.Ratio, m.RatioMin, m.RatioMax = m.Value/other.Value, 0, 0
		return m
	}
	ratios := make([]float64, len(m.rounds))
	for i := range ratios {
		ratios[i] = m.rounds[i] / other.rounds[i]
	}
	of := series("", "", ratios)
	m.Ratio, m.RatioMin, m.RatioMax = of.Value, of.Min, of.Max
	return m
}

// atLeast sets a target for the ratio.
func (m measure) atLeast(ratio float64) measure {
	met := m.Ratio >= ratio
	m.Target, m.Met = "≥ "+measure{Ratio: ratio}.showRatio(), &met
	return m
}

// atMost sets a target for the value.
func (m measure) atMost(value float64) measure {
	met := m.Value <= value
	m.Target, m.Met = fmt.Sprintf("≤ %s %s", showValue(value), m.Unit), &met
	return m
}

// showRatio is in per cent, or in times where that reads better.
func (m measure) showRatio() string {
	switch {
	case m.Ratio == 0:
		return ""
	case m.Ratio < 3:
		percent := func(v float64) string { return strconv.FormatFloat(100*v, 'f', 0, 64) }
		return withRange(percent, m.Ratio, m.RatioMin, m.RatioMax) + " %"
	default:
		times := func(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
		return withRange(times, m.Ratio, m.RatioMin, m.RatioMax) + " ×"
	}
}

func (m measure) showValue() string {
	return withRange(showValue, m.Value, m.Min, m.Max) + " " + m.Unit
}

// withRange is "median (min–max)", or the one value there is.
func withRange(show func(float64) string, value, low, high float64) string {
	if low == 0 && high == 0 {
		return show(value)
	}
	return fmt.Sprintf("%s (%s–%s)", show(value), show(low), show(high))
}

// showTarget tells whether it was met, if there is one.
func (m measure) showTarget() string {
	if m.Met == nil {
		return m.Target
	}
	return map[bool]string{true: "✔ ", false: "✘ "}[*m.Met] + m.Target
}

// showValue groups thousands, and shows digits behind the point only where they say something.
func showValue(v float64) string {
	if v < 100 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

func printTable(out io.Writer, measures []measure) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, m := range measures {
		of := ""
		if m.Of != "" {
			of = "of " + m.Of
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", m.showRatio(), m.Name, m.showValue(), m.showTarget(), of)
	}
	_ = w.Flush() // nothing to do about a reader that went away
}

// resultFile is bench/results.json. Parts were perhaps measured on different days, so each tells its own.
type resultFile struct {
	Parts map[string]partResult `json:"parts"`
}

type partResult struct {
	// Yardstick is what the part was compared with on that day (part.yardstick).
	Yardstick string    `json:"yardstick"`
	Date      time.Time `json:"date"`
	Seconds   float64   `json:"seconds"`
	Machine   machine   `json:"machine"`
	Measures  []measure `json:"measures"`
}

// readResults returns no parts if there is no file.
func readResults(path string) (resultFile, error) {
	results := resultFile{Parts: map[string]partResult{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return results, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &results)
	}
	if err != nil {
		return results, fmt.Errorf("%s: %w", path, err)
	}
	return results, nil
}

// writeInto replaces these parts in the file and leaves the others.
func (r resultFile) writeInto(path string, stdout io.Writer) error {
	merged, err := readResults(path)
	if err != nil {
		return err
	}
	maps.Copy(merged.Parts, r.Parts)
	text, err := json.MarshalIndent(merged, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "\nwritten to %s\n", path)
	return nil
}
