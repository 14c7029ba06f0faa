// How does one find out what there is? The texts of --help and --list, and the table that closes a run.
package main

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"text/tabwriter"
)

const intro = `Usage: go run ./scripts/scenario [--list] [NAME …]

Tells failure stories on real PostgreSQL and RabbitMQ, and judges each by counted invariants.
Without names it tells those of the demo, on the servers that "go run ./scripts/stack up" started.

Examples:
  go run ./scripts/stack up && go run ./scripts/scenario      the whole demo
  go run ./scripts/scenario 02                                one story; part of its name is enough
  go run ./scripts/scenario kill-9-storm broker-down          two
  go run ./scripts/scenario servers-restart                   brings servers of its own
  go run ./scripts/scenario --list                            what there is
  NO_COLOR=1 go run ./scripts/scenario > story.txt            to read later

Exit code: 0 every verdict is ✔, 1 one is ✘, 2 wrong usage.

A story is a file scripts/scenarios/NN-name.txt. Its verbs:
`

func help(out io.Writer) {
	_, _ = io.WriteString(out, intro)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, v := range verbs {
		_, _ = fmt.Fprintf(w, "  %s\t%s\n", v.usage, v.meaning)
	}
	_, _ = fmt.Fprint(w, "  repeat N\tthe steps up to `end`, N times\n")
	_, _ = fmt.Fprint(w, "  verdict\twait for rest, stop the services, count, judge the invariants, then the `expect` lines that follow\n")
	_, _ = fmt.Fprint(w, "\nA condition is MEASURE [= != < <= > >= NUMBER], several joined by `and`. The measures:\n")
	names := make([]string, 0, len(measures))
	for name := range measures {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		usage := measures[name].usage
		if usage == "" {
			usage = name
		}
		_, _ = fmt.Fprintf(w, "  %s\t%s\n", usage, measures[name].meaning)
	}
	_ = w.Flush() // nothing to do about a reader that went away
}

func listScripts(out io.Writer, scripts []*script) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, s := range scripts {
		where := "demo"
		switch {
		case s.ownServers:
			where = "own servers"
		case !s.demo:
			where = "by name"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", s.name, where, s.title)
	}
	_ = w.Flush()
}

// closingTable sums up several scenarios.
func closingTable(out *narrator, results []result) {
	rows := [][]string{{"scenario", "what died", "orders", "republished", "redelivered", "ledger", "DLQ", "verdict", "seconds"}}
	for _, r := range results {
		verdict := "✔"
		if !r.passed() {
			verdict = "✘"
		}
		c := r.counts
		rows = append(rows, []string{r.script.name, r.script.dies, fmt.Sprint(len(c.orders)), fmt.Sprint(c.republished()),
			fmt.Sprint(c.redeliveries()), fmt.Sprint(len(c.ledger)), fmt.Sprint(len(c.dead)), verdict, fmt.Sprintf("%.1f", r.seconds)})
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	out.line("")
	for n, row := range rows {
		var text strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-len([]rune(cell)))
			if i < 2 { // words to the left, numbers to the right
				cell += pad
			} else {
				cell = pad + cell
			}
			switch {
			case n == 0:
				cell = out.paint(bold, cell)
			case strings.HasSuffix(cell, "✔"):
				cell = out.paint(green, cell)
			case strings.HasSuffix(cell, "✘"):
				cell = out.paint(red, cell)
			}
			text.WriteString("  " + cell)
		}
		out.line(strings.TrimRight(text.String(), " "))
	}
}
