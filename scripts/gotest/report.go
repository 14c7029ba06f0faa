package main

// What is printed of what `go test -json` reports? A line when a package begins, and what go test itself would print: when
// it ends, the output of tests that failed, and the closing line; with -v everything, at once for one package at a time.

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// event is one line of `go test -json` (go doc test2json).
type event struct {
	Action, Package, Test, Output string
}

// report prints events; its zero value but for out says nothing of beginnings.
type report struct {
	out     io.Writer
	began   string // the word before a package that begins, "" = not told
	ended   string // the word before one that has ended well, instead of its closing line
	verbose bool   // show what tests print that do not fail

	packages map[string]*pkg
	live     *pkg // with verbose: the package whose output is printed as it comes
}

// pkg is a package under way.
type pkg struct {
	tests  map[string]*test
	order  []*test
	output strings.Builder // of the package itself, at the end: PASS or FAIL, and the closing line
	all    strings.Builder // everything, as it came, that has not been printed
}

type test struct {
	output strings.Builder
	passed bool // or skipped
}

// read prints events until there are no more.
func (r *report) read(events io.Reader) error {
	r.packages = map[string]*pkg{}
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			r.line(line)
		}
		if err == io.EOF {
			for _, p := range r.packages { // go test was ended before them
				r.print(p)
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) line(line string) {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		fmt.Fprint(r.out, line) // a message of the go command
		return
	}
	if e.Action == "build-output" {
		fmt.Fprint(r.out, e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	p := r.packages[e.Package]
	if p == nil {
		p = &pkg{tests: map[string]*test{}}
		r.packages[e.Package] = p
	}
	switch {
	case e.Action == "start" && r.began != "":
		fmt.Fprintf(r.out, "%s\t%s\n", r.began, e.Package)
	case e.Action == "output":
		p.add(e)
		if r.live == nil && r.verbose {
			r.live = p
		}
		if r.live == p {
			fmt.Fprint(r.out, p.all.String())
			p.all.Reset()
		}
	case e.Test != "" && (e.Action == "pass" || e.Action == "skip"):
		p.test(e.Test).passed = true
	case e.Test == "" && r.ended != "" && e.Action == "pass":
		fmt.Fprintf(r.out, "%s\t%s\n", r.ended, e.Package)
		delete(r.packages, e.Package)
	case e.Test == "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip"):
		r.print(p)
		delete(r.packages, e.Package)
	}
}

func (p *pkg) test(name string) *test {
	t := p.tests[name]
	if t == nil {
		t = &test{}
		p.tests[name] = t
		p.order = append(p.order, t)
	}
	return t
}

func (p *pkg) add(e event) {
	p.all.WriteString(e.Output)
	if e.Test == "" {
		p.output.WriteString(e.Output)
		return
	}
	p.test(e.Test).output.WriteString(e.Output)
}

// print shows a package that has ended.
func (r *report) print(p *pkg) {
	if r.verbose {
		fmt.Fprint(r.out, p.all.String())
		if r.live == p {
			r.live = nil
		}
		return
	}
	for _, t := range p.order {
		if t.passed {
			continue
		}
		for line := range strings.Lines(t.output.String()) {
			if !strings.HasPrefix(line, "=== ") { // RUN, PAUSE and CONT are for -v
				fmt.Fprint(r.out, line)
			}
		}
	}
	for line := range strings.Lines(p.output.String()) {
		if line != "PASS\n" {
			fmt.Fprint(r.out, line)
		}
	}
}
