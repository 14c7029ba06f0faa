package main

// How do the logs of three processes become one transcript? Line by line, never torn apart, each
// line tagged with its service, the tag coloured on a terminal.

import (
	"bytes"
	"io"
	"strings"
	"sync"

	"example.com/outboxlab/pkg/printable"
)

const (
	bold  = "\x1b[1m"
	plain = "\x1b[0m"
)

// colours are those of the design's picture: orders green, relay cyan, loyalty magenta.
var colours = map[string]string{"orders": "\x1b[32m", "relay": "\x1b[36m", "loyalty": "\x1b[35m", "up": bold}

type transcript struct {
	mu     sync.Mutex
	out    io.Writer
	colour bool
}

func newTranscript(out io.Writer, colour bool) *transcript {
	return &transcript{out: out, colour: colour}
}

// say prints one line for speaker. A text-mode log line has its "[orders] " already; everything
// else (JSON, a final error) gets it here.
func (t *transcript) say(speaker, line string) {
	tag := "[" + speaker + "]"
	line = printable.Lines(strings.TrimPrefix(line, tag+" ")) // also what a service prints without its logger, as in a panic
	if t.colour {
		tag = colours[speaker] + tag + plain
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = io.WriteString(t.out, strings.TrimRight(tag+" "+line, " ")+"\n")
}

// voice is the stdout and stderr of one service: it cuts what is written into lines, which
// hear gets too.
type voice struct {
	transcript *transcript
	speaker    string
	hear       func(line string)

	mu      sync.Mutex
	pending []byte
}

func (v *voice) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.pending = append(v.pending, p...)
	for {
		line, rest, found := bytes.Cut(v.pending, []byte("\n"))
		if !found {
			return len(p), nil
		}
		v.transcript.say(v.speaker, string(line))
		v.hear(string(line))
		v.pending = rest
	}
}
