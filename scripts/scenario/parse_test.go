package main

// Is every mistake in a scenario file found before anything runs, and said with its line?

import (
	"strings"
	"testing"
)

const sound = `title t
dies d
# prose
# goes on
place 101 12000
repeat 2
  await pending > 0 and holding relay
end
sql SELECT 1 \
    AS one
verdict
expect orders = 1
`

func TestParseScript(t *testing.T) {
	s, err := parseScript("01-x", sound)
	if err != nil {
		t.Fatal(err)
	}
	if s.title != "t" || s.dies != "d" || !s.demo || s.ownServers || s.cutsBroker {
		t.Errorf("declarations: %+v", s)
	}
	if len(s.story) != 4 || s.story[0].said != "prose goes on" || s.story[2].times != 2 || len(s.story[2].body) != 1 {
		t.Errorf("story: %+v", s.story)
	}
	if s.story[3].words != "sql SELECT 1 AS one" {
		t.Errorf("a continued line became %q", s.story[3].words)
	}
	if len(s.expectations) != 1 {
		t.Errorf("%d expectations, want 1", len(s.expectations))
	}
}

func TestParseScriptMistakes(t *testing.T) {
	for wrong, want := range map[string]string{
		"plaice 101 12000":              `5: no verb is called "plaice"`,
		"place 101":                     "5: place: usage: place CUSTOMER TOTAL",
		"place 101 much":                "5: place: usage:",
		"place 5 orders eventually":     "5: place: usage:",
		"start payments":                "5: start: usage:",
		"await ledgers = 1":             `5: await: no measure is called "ledgers"`,
		"await ledger = one":            `5: await: "one" is not a number`,
		"await points 101 102 = 3":      "5: await: usage: points [CUSTOMER]",
		"expect":                        "5: expect: a condition is missing",
		"expect pending = 0 and":        "5: expect: a condition is missing",
		"kill relay when pending > 0":   "5: kill: usage:",
		"crash relay relay.after-claim": "5: crash: usage:",
		"broker slow":                   "5: broker: usage:",
		"database gone":                 "5: database: usage:",
		"dead-letters retry-every 1ms":  "5: dead-letters: usage:",
		"dead-letters retry-every 5s":   "5: only a scenario with own-servers may do that to one",
		"publish every event often":     "5: publish: usage:",
		"start payments restarting":     "5: start: usage:",
		"sql":                           "5: sql: usage:",
		"restart postgres":              "5: only a scenario with own-servers may do that to one",
		"broker alarm":                  "5: only a scenario with own-servers may do that to one",
		"freeze relay pending > 0":      "5: freeze: usage: freeze NAME",
		"release":                       "5: release: usage:",
		"await ledger = 1 within 5s":    "5: await: \"within\" is not a number",
		"thaw":                          "5: thaw: usage:",
		"session A":                     "5: session: usage:",
		"session one BEGIN":             "5: session: usage:",
		"await ledger = 1 while":        "5: await: a condition is missing",
		"await metric relay > 0":        "5: await: usage: metric NAME SERIES",
		"repeat often":                  "5: repeat wants a number",
		"repeat 2":                      "repeat without end",
	} {
		_, err := parseScript("01-x", strings.Replace(sound, "place 101 12000", wrong, 1))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", wrong, err, want)
		}
	}
}

func TestOnlyWhoCutsThePathGetsOne(t *testing.T) {
	for words, want := range map[string]bool{"broker cut": true, "broker silent": true, "broker unbind": false} {
		s, err := parseScript("01-x", strings.Replace(sound, "place 101 12000", words, 1))
		if err != nil {
			t.Fatal(err)
		}
		if s.cutsBroker != want {
			t.Errorf("%s: a path that can be cut: %v, want %v", words, s.cutsBroker, want)
		}
	}
}

func TestParseScriptWantsHeadingAndVerdict(t *testing.T) {
	for text, want := range map[string]string{
		strings.Replace(sound, "title t", "", 1):               "1: a scenario declares its title and who dies",
		strings.Replace(sound, "expect orders = 1", "", 1):     "a scenario ends in `verdict`",
		strings.Replace(sound, "expect orders", "await it", 1): "after `verdict` only `expect` lines follow",
	} {
		if _, err := parseScript("01-x", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestChoose(t *testing.T) {
	paths := []string{"d/01-happy.txt", "d/02-crash-a.txt", "d/03-crash-b.txt"}
	if got, err := choose(paths, []string{"crash-b", "01"}); err != nil || len(got) != 2 || got[0] != paths[2] || got[1] != paths[0] {
		t.Errorf("choose: %v, %v", got, err)
	}
	for name, want := range map[string]string{"crash": "could be any of 2", "99": "no scenario is called"} {
		if _, err := choose(paths, []string{name}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", name, err, want)
		}
	}
}
