// When may kill -9 strike? The verb kill: at once, or at a moment when a condition certainly holds.
package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// seize is how long a kill waits for its condition before it freezes the process to make the condition stay.
const seize = 400 * time.Millisecond

func compileKill(args []string) (action, error) {
	if len(args) == 0 || len(args) == 2 || len(args) > 1 && args[1] != "when" {
		return nil, usage("kill")
	}
	alias := args[0]
	if len(args) == 1 {
		return func(_ context.Context, s *stage) error {
			p, err := s.running(alias)
			if err != nil {
				return err
			}
			p.destroy()
			s.gone(p)
			return nil
		}, nil
	}
	cond, err := parseCondition(args[2:])
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, s *stage) error {
		return s.killWhen(ctx, alias, cond, strings.Join(args[2:], " "))
	}, nil
}

// killWhen kills a process at a moment when the condition certainly holds. Looking and then killing would leave time
// for the condition to pass, so the process is frozen first (SIGSTOP), at whatever it was doing, and looked at then:
// a frozen relay marks no row and a frozen consumer acknowledges nothing. The first look, while it still runs, lets it
// get to work; if the condition does not show by itself it builds up in front of the frozen process. A condition that the
// process itself must bring about, such as `holding`, belongs in an await before the kill.
func (s *stage) killWhen(ctx context.Context, alias string, cond condition, words string) error {
	p, err := s.running(alias)
	if err != nil {
		return err
	}
	_, _ = s.await(ctx, cond, words, seize, time.Millisecond) // only a chance; the look that counts follows
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	found, err := s.await(ctx, cond, words, awaitWithin, time.Millisecond)
	if err != nil {
		_ = p.signal(syscall.SIGCONT) // let it finish; the story has failed already
		return fmt.Errorf("%s was frozen, waiting to be killed: %w", alias, err)
	}
	if _, err := s.running(alias); err != nil {
		return err
	}
	p.destroy()
	s.gone(p)
	s.out.note("killed while %s (%s)", words, found)
	return nil
}
