package main

// The numbers in docs/benchmarks.md are written from bench/results.json, so that nobody copies them by hand.

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	resultsFile = "bench/results.json"
	page        = "docs/benchmarks.md"

	numbersBegin = "<!-- numbers: written by go run ./scripts/bench --write -->\n"
	numbersEnd   = "<!-- end of numbers -->\n"
)

// writePage replaces the numbers in the page.
func writePage(root string, stdout io.Writer) error {
	path := filepath.Join(root, page)
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	results, err := readResults(filepath.Join(root, resultsFile))
	if err != nil {
		return err
	}
	text, err := withNumbers(old, results)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "written to %s\n", page)
	return nil
}

func withNumbers(text []byte, results resultFile) ([]byte, error) {
	before, rest, begins := bytes.Cut(text, []byte(numbersBegin))
	_, after, ends := bytes.Cut(rest, []byte(numbersEnd))
	if !begins || !ends {
		return nil, fmt.Errorf("no place for numbers between %q and %q", numbersBegin, numbersEnd)
	}
	return []byte(string(before) + numbersBegin + results.markdown() + numbersEnd + string(after)), nil
}

// markdown is a table for each part.
func (r resultFile) markdown() string {
	var out strings.Builder
	for _, p := range parts {
		of, measured := r.Parts[p.name]
		fmt.Fprintf(&out, "\n### %s\n\n%s ", p.name, p.question)
		if !measured {
			fmt.Fprintf(&out, "Compared with: %s. *Not measured yet.*\n", p.yardstick)
			continue
		}
		fmt.Fprintf(&out, "Compared with: %s. %s, %d cores, PostgreSQL %s, RabbitMQ %s.\n",
			of.Yardstick, of.Date.Format("2006-01-02"), of.Machine.Cores, of.Machine.PostgreSQL, of.Machine.RabbitMQ)
		if of.Yardstick != p.yardstick {
			fmt.Fprintf(&out, "\n**Measured with an old yardstick**, and to be measured again. The yardstick is now: %s.\n", p.yardstick)
		}
		out.WriteString("\n| what | measured | ratio | of | target |\n|---|---|---|---|---|\n")
		for _, m := range of.Measures {
			fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", m.Name, m.showValue(), m.showRatio(), m.Of, m.showTarget())
		}
	}
	out.WriteString("\n")
	return out.String()
}
