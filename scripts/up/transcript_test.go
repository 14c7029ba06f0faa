package main

import (
	"strings"
	"testing"
)

func TestLinesStayWholeAndAreTaggedOnce(t *testing.T) {
	var out strings.Builder
	heard := 0
	v := &voice{transcript: newTranscript(&out, false), speaker: "relay", hear: func(string) { heard++ }}
	for _, piece := range []string{"[relay] publi", "shed 1: a17a9f69\nrelay: no", " way\n", `{"msg":"x"}` + "\n[relay] a\x1b[2J\tb\nunfinished"} {
		if _, err := v.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	want := "[relay] published 1: a17a9f69\n[relay] relay: no way\n[relay] {\"msg\":\"x\"}\n[relay] a\\x1b[2J    b\n"
	if out.String() != want || heard != 4 {
		t.Errorf("heard %d lines:\n%swant\n%s", heard, out.String(), want)
	}
}

func TestTagIsColouredOnATerminal(t *testing.T) {
	var out strings.Builder
	newTranscript(&out, true).say("orders", "[orders] order 1 saved")
	if want := "\x1b[32m[orders]\x1b[0m order 1 saved\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
