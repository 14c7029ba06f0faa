// How do orders come in? The verb place: over HTTP, one, many, or many while the story goes on.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
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

func compilePlace(args []string) (action, error) {
	if len(args) < 2 || len(args) > 6 {
		return nil, usage("place")
	}
	first, err := strconv.Atoi(args[0])
	if err != nil || first < 1 {
		return nil, usage("place")
	}
	if args[1] == "orders" {
		return compileWave(first, args[2:])
	}
	total, err := strconv.Atoi(args[1])
	if err != nil || len(args) > 3 || len(args) == 3 && args[2] != "unanswered" {
		return nil, usage("place")
	}
	unanswered := len(args) == 3
	return func(ctx context.Context, s *stage) error {
		began := time.Now()
		id, err := s.order(ctx, first, total)
		switch {
		case unanswered && (err == nil || errors.As(err, new(*refusal))):
			return fmt.Errorf("the customer got an answer (order %d, %v); the connection should have broken", id, err)
		case unanswered:
			s.out.note("the customer got no answer")
			return nil
		case err != nil:
			return err
		}
		s.replies = []time.Duration{time.Since(began)}
		s.out.note("201: order %d", id)
		return nil
	}, nil
}

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

// finishPlacing waits for the wave that is on its way, if any, and keeps its reply times.
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
	s.replies = p.replies
	if p.err != nil {
		return fmt.Errorf("an order was not accepted: %w", p.err)
	}
	s.out.note("%d orders placed, each answered 201 (typically after %d ms)", len(p.replies), median(p.replies).Milliseconds())
	return nil
}

func median(sorted []time.Duration) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}

// refusal is an answer other than 201.
type refusal struct{ status, body string }

func (r *refusal) Error() string {
	return fmt.Sprintf("POST /orders answered %s: %s", r.status, r.body)
}

var customer = &http.Client{Timeout: 15 * time.Second}

// order places one order over HTTP and notes it as accepted when the answer is 201. Any other answer is an error.
func (s *stage) order(ctx context.Context, customerID, total int) (int64, error) {
	service, err := s.running("orders")
	if err != nil {
		return 0, err
	}
	body := fmt.Sprintf(`{"customerId": %d, "totalKzt": %d}`, customerID, total)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, service.address()+"/orders", bytes.NewBufferString(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := customer.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	if response.StatusCode != http.StatusCreated {
		return 0, &refusal{status: response.Status, body: string(bytes.TrimSpace(answer))}
	}
	var order struct {
		ID int64 `json:"id"`
	}
	if err := json.Unmarshal(answer, &order); err != nil || order.ID == 0 {
		return 0, fmt.Errorf("POST /orders answered 201 without an id: %s", bytes.TrimSpace(answer))
	}
	s.accept(order.ID)
	return order.ID, nil
}
