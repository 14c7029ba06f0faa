// How is a story told from the first line to the verdict? Step by step; the first step that fails ends the story, and
// the verdict still counts what became of the orders.
package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"example.com/outboxlab/scripts/lab"
	"example.com/outboxlab/scripts/stack/servers"
	"example.com/outboxlab/scripts/wait"
)

// storyWithin bounds one scenario, servers of its own not included. Its waits have limits of their own; this one is for
// a story in which each of many takes long.
var storyWithin = 5 * wait.Limit

// perform tells one script on a lab and returns its result; an error means that the stage itself could not be set.
func perform(ctx context.Context, sc *script, l *lab.Lab, pair *servers.Pair, binaries string, out *narrator) (result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, storyWithin, fmt.Errorf("%s took longer than %v", sc.name, storyWithin))
	defer cancel()
	began := time.Now()
	out.heading(sc.name, sc.title)
	s, err := openStage(ctx, sc, l, pair, binaries, out)
	if err != nil {
		return result{}, err
	}
	defer s.close()
	told := s.tell(ctx, sc.story)
	if ctx.Err() != nil { // interrupted, or out of time: there is nothing to judge
		return result{}, context.Cause(ctx)
	}
	r := s.verdict(ctx, told)
	r.seconds = time.Since(began).Seconds()
	if r.passed() {
		out.line("\n  " + out.paint(bold+";"+green, fmt.Sprintf("✔ %s", sc.name)) + fmt.Sprintf(" in %.1f s", r.seconds))
	} else {
		out.line("\n  " + out.paint(bold+";"+red, fmt.Sprintf("✘ %s", sc.name)) + fmt.Sprintf(": %d faults, in %.1f s", len(r.faults), r.seconds))
	}
	return r, nil
}

// tell performs steps in order.
func (s *stage) tell(ctx context.Context, steps []step) error {
	for _, st := range steps {
		switch {
		case st.said != "":
			s.out.say(st.said)
		case st.times > 0:
			for round := range st.times {
				s.out.say(fmt.Sprintf("Round %d of %d", round+1, st.times))
				if err := s.tell(ctx, st.body); err != nil {
					return err
				}
			}
		default:
			if !strings.HasPrefix(st.words, "expect ") { // its result says the same
				s.out.step(st.words)
			}
			if err := st.act(ctx, s); err != nil {
				s.out.fail(err.Error())
				return fmt.Errorf("line %d, %s: %w", st.line, st.words, err)
			}
		}
	}
	return nil
}
