// What may befall a process by force? The verb kill, and its mild sister freeze. Both strike wherever the process happens to
// be; a story that depends on the place lets the service hold at a crash point first.
package main

import (
	"context"
	"syscall"
)

func compileKill(args []string) (action, error) {
	return compileSignal("kill", args, func(s *stage, p *process) error {
		p.Destroy()
		s.gone(p)
		return nil
	})
}

func compileFreeze(args []string) (action, error) {
	return compileSignal("freeze", args, func(_ *stage, p *process) error { return p.Signal(syscall.SIGSTOP) })
}

func compileThaw(args []string) (action, error) {
	return compileSignal("thaw", args, func(_ *stage, p *process) error { return p.Signal(syscall.SIGCONT) })
}

// compileSignal reads NAME.
func compileSignal(verb string, args []string, act func(*stage, *process) error) (action, error) {
	if len(args) != 1 {
		return nil, usage(verb)
	}
	return func(_ context.Context, s *stage) error {
		p, err := s.running(args[0])
		if err != nil {
			return err
		}
		return act(s, p)
	}, nil
}
