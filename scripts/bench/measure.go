package main

// What is a result, and how is it shown? Ratios come first: they are what another machine will see, too.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"
)

// measure is one number, and what it is compared with.
type measure struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Ratio  float64 `json:"ratio,omitempty"` // Value / the value of Of
	Of     string  `json:"of,omitempty"`    // the name of another measure
	Target string  `json:"target,omitempty"`
	Met    *bool   `json:"met,omitempty"`
}

// to compares m with another measure.
func (m measure) to(other measure) measure {
	m.Ratio, m.Of = m.Value/other.Value, other.Name
	return m
}

// atLeast sets a target for the ratio.
func (m measure) atLeast(ratio float64) measure {
	met := m.Ratio >= ratio
	m.Target, m.Met = "≥ "+showRatio(ratio), &met
	return m
}

// atMost sets a target for the value.
func (m measure) atMost(value float64) measure {
	met := m.Value <= value
	m.Target, m.Met = fmt.Sprintf("≤ %s %s", showValue(value), m.Unit), &met
	return m
}

func showRatio(r float64) string {
	switch {
	case r == 0:
		return ""
	case r < 3:
		return fmt.Sprintf("%.0f %%", 100*r)
	default:
		return fmt.Sprintf("%.1f ×", r)
	}
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
		of, verdict := "", m.Target
		if m.Of != "" {
			of = "of " + m.Of
		}
		if m.Met != nil {
			verdict = map[bool]string{true: "✔ ", false: "✘ "}[*m.Met] + m.Target
		}
		fmt.Fprintf(w, "  %s\t%s\t%s %s\t%s\t%s\n", showRatio(m.Ratio), m.Name, showValue(m.Value), m.Unit, verdict, of)
	}
	_ = w.Flush() // nothing to do about a reader that went away
}

// resultFile is bench/results.json. Parts were perhaps measured on different days, so each tells its own.
type resultFile struct {
	Parts map[string]partResult `json:"parts"`
}

type partResult struct {
	Date     time.Time `json:"date"`
	Seconds  float64   `json:"seconds"`
	Machine  machine   `json:"machine"`
	Measures []measure `json:"measures"`
}

// writeInto replaces these parts in the file and leaves the others.
func (r resultFile) writeInto(path string) error {
	merged := resultFile{Parts: map[string]partResult{}}
	old, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(old, &merged)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", path, err)
	}
	maps.Copy(merged.Parts, r.Parts)
	text, err := json.MarshalIndent(merged, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
