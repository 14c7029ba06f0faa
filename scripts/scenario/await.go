// How does a story wait? Never for a time, always for a condition with a deadline.
package main

import (
	"context"
	"fmt"
	"time"
)

// pollEvery is how often a waiting step asks again. Short enough to look immediate, long enough for two cores.
const pollEvery = 20 * time.Millisecond

// waiting is what a step waits for.
type waiting struct {
	cond          condition
	words         string        // cond as the script says it
	while         condition     // must hold at every look, nil = nothing must
	whileWords    string        // while as the script says it
	within, every time.Duration // how long, and how often to look
}

// await polls until the condition holds and returns what was found. At the deadline the error tells what was
// expected, what was found last, and the last error of the question itself (a server may be down meanwhile).
func (s *stage) await(ctx context.Context, w waiting) (string, error) {
	deadline := time.Now().Add(w.within)
	var found string
	var asked error
	for {
		var ok bool
		var seen string
		if ok, seen, err := w.while.holds(ctx, s); err != nil || !ok {
			return found, &unmet{words: w.whileWords + " all the while", found: seen, err: err}
		}
		ok, seen, asked = w.cond.holds(ctx, s)
		if asked == nil {
			found = seen
		}
		switch {
		case ok:
			return found, nil
		case ctx.Err() != nil:
			return found, context.Cause(ctx)
		case time.Now().After(deadline):
			return found, &unmet{words: w.words, found: found, within: w.within, err: asked}
		}
		select {
		case <-ctx.Done():
		case <-time.After(w.every):
		}
	}
}

// unmet is a condition that did not come true.
type unmet struct {
	words  string        // expected, as the script says it
	found  string        // what the last answer was, "" if there was none
	within time.Duration // how long it was given, 0 when it was only looked at once
	err    error         // why the last question had no answer, if it had none
}

func (u *unmet) Error() string {
	text := fmt.Sprintf("expected %s, found %s", u.words, orNothing(u.found))
	if u.within > 0 {
		text += fmt.Sprintf(" after %v", u.within)
	}
	if u.err != nil {
		text += fmt.Sprintf(" (last answer: %v)", u.err)
	}
	return text
}

func (u *unmet) Unwrap() error { return u.err }

func orNothing(found string) string {
	if found == "" {
		return "no answer"
	}
	return found
}
