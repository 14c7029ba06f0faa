// How do many orders come in? The verb place with a number of orders: by several customers at once, at a pace, and if
// the story wants it in the background.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// wave is what a script says about many orders.
type wave struct {
	count        int
	over         time.Duration // spread evenly over this time; 0 = as fast as they are accepted
	meanwhile    bool          // the story does not wait
	persistently bool          // an order that is refused or not answered is placed again
}

// wavePlacers is how many customers order at the same time.
const wavePlacers = 4

func compileWave(count int, words []string) (action, error) {
	w := wave{count: count}
	for len(words) > 0 {
		switch {
		case words[0] == "over" && len(words) > 1:
			d, err := time.ParseDuration(words[1])
			if err != nil {
				return nil, usage("place")
			}
			w.over, words = d, words[1:]
		case words[0] == "meanwhile":
			w.meanwhile = true
		case words[0] == "persistently":
			w.persistently = true
		default:
			return nil, usage("place")
		}
		words = words[1:]
	}
	return func(ctx context.Context, s *stage) error {
		if err := s.finishPlacing(ctx); err != nil {
			return err
		}
		s.placing = s.begin(ctx, w)
		s.placed = s.placing
		if w.meanwhile {
			return nil
		}
		return s.finishPlacing(ctx)
	}, nil
}

// placing is a wave on its way.
type placing struct {
	abandon context.CancelFunc
	done    chan struct{}
	mu      sync.Mutex
	replies []time.Duration
	err     error // the first refusal, which ends the wave
}

// begin places a wave in the background.
func (s *stage) begin(ctx context.Context, w wave) *placing {
	ctx, abandon := context.WithCancel(ctx)
	p := &placing{abandon: abandon, done: make(chan struct{})}
	numbers := make(chan int)
	go func() { // the pace: one number per order, in its time
		defer close(numbers)
		began := time.Now()
		for i := range w.count {
			due := began.Add(w.over * time.Duration(i) / time.Duration(w.count))
			select {
			case <-time.After(time.Until(due)):
			case <-ctx.Done():
				return
			}
			select {
			case numbers <- i:
			case <-ctx.Done():
				return
			}
		}
	}()
	var placers sync.WaitGroup
	for range wavePlacers {
		placers.Go(func() {
			for i := range numbers {
				p.note(s.placeOne(ctx, i, w.persistently))
			}
		})
	}
	go func() {
		placers.Wait()
		close(p.done)
	}()
	return p
}

// placeOne places the i-th order of a wave: ten customers, totals from 1000 to 2900 KZT.
func (s *stage) placeOne(ctx context.Context, i int, persistently bool) (time.Duration, error) {
	for {
		began := time.Now()
		_, err := s.order(ctx, 201+i%10, 1000+100*(i%20))
		if err == nil || !persistently || ctx.Err() != nil {
			return time.Since(began), err
		}
		select {
		case <-time.After(100 * time.Millisecond): // the customer tries again, as customers do
		case <-ctx.Done():
		}
	}
}

// underWay reports whether there is a wave that is not finished.
func (p *placing) underWay() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *placing) note(reply time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.replies = append(p.replies, reply)
	} else if p.err == nil {
		p.err = err
		p.abandon()
	}
}

// finishPlacing waits for the wave that is on its way, if any, and tells its reply times.
func (s *stage) finishPlacing(ctx context.Context) error {
	p := s.placing
	if p == nil {
		return nil
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.placing = nil
	p.abandon() // releases the context
	slices.Sort(p.replies)
	if p.err != nil {
		return fmt.Errorf("an order was not accepted: %w", p.err)
	}
	s.out.note("%d orders placed, each answered 201 (typically after %d ms)", len(p.replies), median(p.replies).Milliseconds())
	return nil
}

func askPlaced(_ context.Context, s *stage, _ []string) ([]float64, error) {
	if s.placed == nil {
		return nil, errors.New("no wave of orders has been placed")
	}
	s.placed.mu.Lock()
	defer s.placed.mu.Unlock()
	return number(len(s.placed.replies), s.placed.err)
}

func median(sorted []time.Duration) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}
