// When may kill -9 strike? The verb kill, and its mild sister freeze: at once, or at a moment when a condition certainly
// holds.
package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// seize is how long they wait for its condition before it freezes the process to make the condition stay.
const seize = 400 * time.Millisecond

func compileKill(args []string) (action, error) {
	freeze, err := compileFreezing("kill", args)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, s *stage) error {
		if err := freeze(ctx, s); err != nil {
			return err
		}
		p, err := s.running(args[0])
		if err != nil {
			return err
		}
		p.Destroy()
		s.gone(p)
		return nil
	}, nil
}

func compileFreeze(args []string) (action, error) { return compileFreezing("freeze", args) }

func compileThaw(args []string) (action, error) {
	if len(args) != 1 {
		return nil, usage("thaw")
	}
	return func(_ context.Context, s *stage) error {
		p, err := s.running(args[0])
		if err != nil {
			return err
		}
		return p.Signal(syscall.SIGCONT)
	}, nil
}

// compileFreezing reads NAME [when CONDITION].
func compileFreezing(verb string, args []string) (action, error) {
	if len(args) == 0 || len(args) == 2 || len(args) > 1 && args[1] != "when" {
		return nil, usage(verb)
	}
	alias := args[0]
	if len(args) == 1 {
		return func(_ context.Context, s *stage) error {
			p, err := s.running(alias)
			if err != nil {
				return err
			}
			return p.Signal(syscall.SIGSTOP)
		}, nil
	}
	cond, err := parseCondition(args[2:])
	if err != nil {
		return nil, err
	}
	words := strings.Join(args[2:], " ")
	return func(ctx context.Context, s *stage) error { return s.freezeWhen(ctx, alias, cond, words) }, nil
}

// freezeWhen stops a process at a moment when the condition certainly holds. Looking and then stopping would leave time
// for the condition to pass, so the process is frozen first (SIGSTOP), at whatever it was doing, and looked at then:
// a frozen relay marks no row and a frozen consumer acknowledges nothing. The first look, while it still runs, lets it
// get to work; if the condition does not show by itself it builds up in front of the frozen process. A condition that the
// process itself must bring about, such as `holding`, belongs in an await before.
func (s *stage) freezeWhen(ctx context.Context, alias string, cond condition, words string) error {
	p, err := s.running(alias)
	if err != nil {
		return err
	}
	w := wait{cond: cond, words: words, within: seize, every: time.Millisecond}
	_, _ = s.await(ctx, w) // only a chance; the look that counts follows
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	w.within = awaitWithin
	found, err := s.await(ctx, w)
	if err != nil {
		_ = p.Signal(syscall.SIGCONT) // let it finish; the story has failed already
		return fmt.Errorf("%s was frozen: %w", alias, err)
	}
	s.out.note("caught while %s (%s)", words, found)
	return nil
}
