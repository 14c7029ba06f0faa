// What if a service that dies is started again, as init systems and orchestrators do? `start … restarting`: until it is
// asked to stop, or finds its configuration wrong, the same command is launched again at once.
package main

import (
	"context"
	"sync"
)

// restarter starts services again that have died.
type restarter struct {
	mu        sync.Mutex
	dismissed bool
	deaths    map[string]int // by alias
}

// keepRunning returns when a process ends in order (0), says that starting it is of no use (2), or nobody needs it any more.
func (s *stage) keepRunning(c command, p *process) {
	for {
		<-p.Ended
		if code := p.State().ExitCode(); code == 0 || code == 2 {
			return
		}
		s.gone(p)
		next, err := s.again(c)
		if err != nil {
			s.out.fail(err.Error())
		}
		if next == nil {
			return
		}
		p = next
	}
}

// again launches c once more; nil if services are to stay dead now. Held for the whole of it, the lock keeps a process from
// being started behind the back of whoever ends them all.
func (s *stage) again(c command) (*process, error) {
	s.restarter.mu.Lock()
	defer s.restarter.mu.Unlock()
	if s.restarter.dismissed {
		return nil, nil
	}
	if s.restarter.deaths == nil {
		s.restarter.deaths = map[string]int{}
	}
	s.restarter.deaths[c.alias]++
	return s.launch(c)
}

// dismiss: from now on, who dies stays dead.
func (r *restarter) dismiss() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dismissed = true
}

func askDeaths(_ context.Context, s *stage, args []string) ([]float64, error) {
	s.restarter.mu.Lock()
	defer s.restarter.mu.Unlock()
	return number(s.restarter.deaths[args[0]], nil)
}
