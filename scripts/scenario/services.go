// How do services come and go in a story? The verbs start, stop, crash, dead and run; kill and freeze have a file of their own.
package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"example.com/outboxlab/scripts/wait"
)

// command is what a script says about a service to run.
type command struct {
	service, alias string
	args, env      []string
}

var variable = regexp.MustCompile(`^[A-Z][A-Z_]*=`)

// parseCommand reads SERVICE [as NAME] [VARIABLE=VALUE …] [ARGUMENT …].
func parseCommand(words []string, form string) (command, error) {
	if len(words) == 0 || !slices.Contains([]string{"orders", "relay", "loyalty"}, words[0]) {
		return command{}, usage(form)
	}
	c := command{service: words[0], alias: words[0]}
	words = words[1:]
	if len(words) > 1 && words[0] == "as" {
		c.alias, words = words[1], words[2:]
	}
	for _, w := range words {
		if variable.MatchString(w) {
			c.env = append(c.env, w)
		} else {
			c.args = append(c.args, w)
		}
	}
	return c, nil
}

func compileStart(args []string) (action, error) {
	restarting := len(args) > 1 && args[len(args)-1] == "restarting"
	if restarting {
		args = args[:len(args)-1]
	}
	c, err := parseCommand(args, "start")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, s *stage) error {
		p, err := s.launch(c)
		if err != nil {
			return err
		}
		if restarting {
			go s.keepRunning(c, p)
		}
		return awaitReady(ctx, p)
	}, nil
}

// awaitReady waits until /readyz answers 200. A service told to hold at a crash point may get there, and hold,
// before it answers: that counts as started too.
func awaitReady(ctx context.Context, p *process) error {
	deadline := time.Now().Add(wait.Limit)
	for {
		if p.Printed(holdingAt) > 0 || p.Ready(ctx) {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not ready after %v; it last said: %s", p.Name, wait.Limit, p.LastLine())
		}
		select {
		case <-p.Ended:
			return fmt.Errorf("%s ended with exit code %d instead of running; it last said: %s",
				p.Name, p.State().ExitCode(), p.LastLine())
		case <-time.After(pollEvery):
		case <-ctx.Done():
		}
	}
}

// What a service prints when it stops at a crash point instead of dying there, and when it goes on.
const (
	holdingAt  = "holding at "
	releasedAt = "released at "
)

// holding is 1 while the service holds at its crash point, else 0.
func (p *process) holding() int { return p.Printed(holdingAt) - p.Printed(releasedAt) }

// release lets a service go on that holds at its crash point.
func release(ctx context.Context, p *process) error {
	if err := p.Signal(syscall.SIGUSR1); err != nil {
		return err
	}
	deadline := time.Now().Add(wait.Limit)
	for p.holding() > 0 {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s still holds %v after its release", p.Name, wait.Limit)
		}
		select {
		case <-p.Ended:
			return nil // the exit code is for somebody else to judge
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func compileRelease(args []string) (action, error) {
	if len(args) != 1 {
		return nil, usage("release")
	}
	return func(ctx context.Context, s *stage) error {
		p, err := s.running(args[0])
		if err != nil {
			return err
		}
		if p.holding() == 0 {
			return fmt.Errorf("%s does not hold at a crash point; it last said: %s", p.Name, p.LastLine())
		}
		return release(ctx, p)
	}, nil
}

func compileStop(args []string) (action, error) {
	if len(args) != 1 {
		return nil, usage("stop")
	}
	return func(ctx context.Context, s *stage) error {
		p, err := s.running(args[0])
		if err != nil {
			return err
		}
		return end(ctx, p)
	}, nil
}

// end asks a service to stop, lets it go on if it holds at a crash point, and expects exit code 0.
func end(ctx context.Context, p *process) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if p.holding() > 0 {
		if err := release(ctx, p); err != nil {
			return err
		}
	}
	return p.MustExit(ctx, 0)
}

func compileCrash(args []string) (action, error) {
	n := len(args)
	if n < 3 || args[n-2] != "at" {
		return nil, usage("crash")
	}
	point := args[n-1]
	c, err := parseCommand(args[:n-2], "crash")
	if err != nil {
		return nil, err
	}
	c.env = append(c.env, "CRASH_AT="+point)
	return func(ctx context.Context, s *stage) error {
		p, err := s.launch(c)
		if err != nil {
			return err
		}
		return s.died(ctx, p, point)
	}, nil
}

func compileDead(args []string) (action, error) {
	if len(args) != 3 || args[1] != "at" {
		return nil, usage("dead")
	}
	return func(ctx context.Context, s *stage) error {
		p := s.find(args[0])
		if p == nil {
			return fmt.Errorf("%s was not started", args[0])
		}
		return s.died(ctx, p, args[2])
	}, nil
}

// died waits until p has ended itself at the crash point. Any error ends a service with 1, so the exit code alone
// would not tell; what it left behind is for the story's own expectations to judge.
func (s *stage) died(ctx context.Context, p *process, point string) error {
	if err := p.MustExit(ctx, 1); err != nil {
		return err
	}
	s.gone(p)
	name, _, _ := strings.Cut(point, ":")
	name, _, _ = strings.Cut(name, "@")
	if p.Printed("crash at "+name) == 0 {
		return fmt.Errorf("%s ended with exit code 1, but not at %s; it last said: %s", p.Name, point, p.LastLine())
	}
	s.out.note("%s died there: exit code 1", p.Name)
	return nil
}

func compileRun(args []string) (action, error) {
	c, err := parseCommand(args, "run")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, s *stage) error {
		p, err := s.launch(c)
		if err != nil {
			return err
		}
		return p.MustExit(ctx, 0)
	}, nil
}
