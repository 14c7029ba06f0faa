package main

// Is the narration readable in a plain file, however much the services say?

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestNarrationIsPlainAndBounded(t *testing.T) {
	var told bytes.Buffer
	n := newNarrator(&told, false)
	n.step("place 500 orders")
	for range 500 {
		n.log("orders", "orders", "[orders] order saved "+strings.Repeat("x", 300))
	}
	n.log("relay-a", "relay", "[relay] published 1")
	n.note("%s", "row\x1b[2J")
	n.fail("two\nlines \u202e")
	n.log("loyalty", "loyalty", "[loyalty] Тапсырыс \x1b[31m\tpanic")
	n.step("next")
	text := told.String()
	if strings.Contains(text, "\x1b") {
		t.Error("colour in a plain file")
	}
	if lines := strings.Count(text, "order saved"); lines != logLinesPerStep {
		t.Errorf("%d lines of one service in one step, want %d", lines, logLinesPerStep)
	}
	for _, want := range []string{"… and 492 more lines", "relay-a: [relay] published 1", `row\x1b[2J`, "lines \\u202e", `[loyalty] Тапсырыс \x1b[31m    panic`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	for l := range strings.Lines(text) {
		if len([]rune(l)) > logLineWidth+10 {
			t.Errorf("a line of %d characters", len([]rune(l)))
		}
	}
}

func TestColourOnlyOnATerminal(t *testing.T) {
	if wantsColour(&bytes.Buffer{}, os.Getenv) {
		t.Error("colour for a buffer")
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if wantsColour(file, func(string) string { return "" }) {
		t.Error("colour for a file")
	}
}

func TestFold(t *testing.T) {
	got := fold("one two  three four", 9)
	if want := []string{"one two", "three", "four"}; strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("fold: %q, want %q", got, want)
	}
}
