// How is a scenario told? Line by line as it happens: prose, steps, what the services say, results. Handsome on a
// terminal, plain in a file. In `go test` the same words go to a buffer that is shown when the test fails.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"example.com/outboxlab/pkg/printable"
)

// logLinesPerStep is how many lines of each service are shown per step; the rest are counted. A story with 500
// orders would otherwise drown in its own transcript.
const logLinesPerStep = 8

// logLineWidth is where a service's line is cut, in characters: a batch of 1,000 names 1,000 events.
const logLineWidth = 150

// proseWidth is where narration is folded, in characters.
const proseWidth = 96

// narrator writes for one reader; its methods may be called from several goroutines.
type narrator struct {
	mu     sync.Mutex
	out    io.Writer
	colour bool
	shown  map[string]int // per service, since the last step
}

func newNarrator(out io.Writer, colour bool) *narrator {
	return &narrator{out: out, colour: colour, shown: map[string]int{}}
}

// wantsColour: only on a terminal, and not when NO_COLOR is set (no-color.org).
func wantsColour(out io.Writer, getenv func(string) string) bool {
	file, ok := out.(*os.File)
	return ok && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb" && term.IsTerminal(int(file.Fd()))
}

// The few styles of a page: SGR codes.
const (
	bold    = "1"
	dim     = "2"
	red     = "31"
	green   = "32"
	cyan    = "36"
	yellow  = "33"
	magenta = "35"
)

func (n *narrator) paint(style, text string) string {
	if !n.colour {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

func (n *narrator) line(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.write(text)
}

// write expects the lock to be held.
func (n *narrator) write(text string) { _, _ = fmt.Fprintln(n.out, text) }

// heading opens a scenario.
func (n *narrator) heading(name, title string) {
	rule := strings.Repeat("─", max(4, proseWidth-len([]rune(name))-len([]rune(title))-5))
	n.line("\n" + n.paint(bold, "── "+name+" · "+title+" ") + n.paint(dim, rule))
}

// say narrates one paragraph.
func (n *narrator) say(text string) {
	n.flush()
	n.line("")
	for _, l := range fold(text, proseWidth) {
		n.line("  " + n.paint(bold, l))
	}
}

// step shows the words of the script that are about to be performed. An `expect` is shown by its result alone.
func (n *narrator) step(words string) {
	n.flush()
	n.line("    " + n.paint(cyan, "▸ "+words))
}

// note tells what came of a step.
func (n *narrator) note(format string, args ...any) {
	n.line("        " + printable.Text(fmt.Sprintf(format, args...)))
}

// pass and fail tell a judgement.
func (n *narrator) pass(text string) {
	n.line("      " + n.paint(green, "✔ ") + printable.Text(text))
}
func (n *narrator) fail(text string) {
	text = printable.Lines(text)
	n.line("      " + n.paint(red, "✘ "+strings.ReplaceAll(text, "\n", "\n        ")))
}

// log passes on one line of a service.
func (n *narrator) log(alias, service, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if strings.Contains(text, "] starting with ") {
		return // the configuration: long, and the script says what is special about it
	}
	n.shown[alias]++
	if n.shown[alias] > logLinesPerStep {
		return
	}
	if alias != service {
		text = alias + ": " + text
	}
	text = printable.Lines(text) // what it says may come from data
	if letters := []rune(text); len(letters) > logLineWidth {
		text = string(letters[:logLineWidth-2]) + " …"
	}
	style := map[string]string{"orders": cyan, "relay": yellow, "loyalty": magenta}[service]
	n.write("        " + n.paint(dim+";"+style, text))
}

// flush tells how many lines were not shown, and starts counting anew.
func (n *narrator) flush() {
	n.mu.Lock()
	defer n.mu.Unlock()
	hidden := 0
	for alias, count := range n.shown {
		hidden += max(0, count-logLinesPerStep)
		delete(n.shown, alias)
	}
	if hidden > 0 {
		n.write("        " + n.paint(dim, fmt.Sprintf("… and %d more lines of the services", hidden)))
	}
}

// fold breaks text into lines of at most width characters.
func fold(text string, width int) []string {
	var lines []string
	current := ""
	for word := range strings.FieldsSeq(text) {
		if current != "" && len([]rune(current))+1+len([]rune(word)) > width {
			lines = append(lines, current)
			current = ""
		}
		if current != "" {
			current += " "
		}
		current += word
	}
	return append(lines, current)
}
