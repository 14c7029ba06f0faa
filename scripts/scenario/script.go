// Which story does a scenario file tell? This file reads scripts/scenarios/NN-name.txt into a script:
// declarations, steps, and the expectations of its verdict. Every word is checked here, before any server
// is touched (parse.go). What each verb does is in verbs.go; who performs the steps is perform.go.
//
//	title The relay publishes and dies     one line, shown in the heading
//	dies  the relay, between confirm and mark
//	demo no                                   not part of `make demo`
//	own-servers                               gets a PostgreSQL and a RabbitMQ of its own (and is not in the demo)
//
//	# Prose: consecutive comment lines are narrated as one paragraph.
//	verb arguments …                          a backslash at the end continues the line
//	repeat 5 … end                            the steps between, five times
//	verdict                                   the rest are expectations about the final counts
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// script is one scenario, ready to be performed.
type script struct {
	name         string // file name without .txt
	title        string // what the story is about, one line
	dies         string // who is killed or taken away, for the closing table
	ownServers   bool   // needs servers it may restart
	demo         bool   // told by `make demo`
	cutsBroker   bool   // cuts or silences it, so the services get a path to the broker that can be cut
	cutsDatabase bool   // uses `database`, so loyalty gets a path to its database that can be cut
	story        []step
	expectations []expectation
}

// step is one thing that happens: a paragraph of narration, a verb, or a repeated body.
type step struct {
	line  int    // in the file, for error messages
	said  string // narration, when this is prose
	words string // the step as written
	act   action // what the verb does
	times int    // how often body is performed, when this is a repeat
	body  []step
}

// expectation is one `expect` after `verdict`.
type expectation struct {
	words string
	cond  condition
}

// readScript parses one file. Errors name the file and the line.
func readScript(path string) (*script, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := parseScript(strings.TrimSuffix(filepath.Base(path), ".txt"), string(text))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return s, nil
}

// readScripts parses the named scenarios of a directory, or all of them when names is empty, in file order.
// A name may be shortened: "02" or "crash-after" do, as long as only one file matches.
func readScripts(dir string, names []string) ([]*script, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	sort.Strings(paths)
	if len(names) > 0 {
		if paths, err = choose(paths, names); err != nil {
			return nil, err
		}
	}
	scripts := make([]*script, 0, len(paths))
	for _, path := range paths {
		s, err := readScript(path)
		if err != nil {
			return nil, err
		}
		scripts = append(scripts, s)
	}
	return scripts, nil
}

// choose picks the one path each name means.
func choose(paths, names []string) ([]string, error) {
	var chosen []string
	for _, name := range names {
		var hits []string
		for _, path := range paths {
			base := strings.TrimSuffix(filepath.Base(path), ".txt")
			if base == name {
				hits = []string{path}
				break
			}
			if strings.Contains(base, name) {
				hits = append(hits, path)
			}
		}
		switch len(hits) {
		case 0:
			return nil, fmt.Errorf("no scenario is called %q; --list shows them", name)
		case 1:
			chosen = append(chosen, hits[0])
		default:
			return nil, fmt.Errorf("%q could be any of %d scenarios; --list shows them", name, len(hits))
		}
	}
	return chosen, nil
}
