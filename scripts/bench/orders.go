package main

// Orders are placed over HTTP, at a given pace or as fast as they are answered.

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// customers is how many order at the same time, unless a part says otherwise.
const customers = 32

// shop places orders at one orders service.
type shop struct {
	url    string
	client *http.Client
	placed atomic.Int64
}

func newShop(orders *process) *shop {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = customers // else most requests would open a connection
	return &shop{url: orders.Address() + "/orders", client: &http.Client{Transport: transport, Timeout: 10 * time.Second}}
}

func (s *shop) place(ctx context.Context) error {
	body := fmt.Sprintf(`{"customerId":%d,"totalKzt":12000}`, 100+s.placed.Load()%1000)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(body))
	if err != nil {
		return err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, response.Body) // read to its end, a connection is used again
	_ = response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		return fmt.Errorf("order not accepted: %s", response.Status)
	}
	s.placed.Add(1)
	return nil
}

// flatOut calls do from that many clients without a pause, and tells how many calls a second were answered.
func flatOut(ctx context.Context, clients int, lasting time.Duration, do func(ctx context.Context) error) ([]reading, error) {
	var done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for range clients {
		group.Go(func() error {
			for time.Since(began) < lasting {
				if err := do(ctx); err != nil {
					return err
				}
				done.Add(1)
			}
			return nil
		})
	}
	err := group.Wait()
	return rate(float64(done.Load())/time.Since(began).Seconds(), "orders/s"), err
}

// steadily places orders at an even pace, and returns how many a second it really were: fewer if the answers take so
// long that all customers are waiting.
func (s *shop) steadily(ctx context.Context, perSecond float64, lasting time.Duration) (really float64, err error) {
	total := int64(perSecond * lasting.Seconds())
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for range customers {
		group.Go(func() error {
			for {
				n := next.Add(1) - 1
				if n >= total {
					return nil
				}
				due := began.Add(time.Duration(float64(n) / perSecond * float64(time.Second)))
				select {
				case <-time.After(time.Until(due)):
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				if err := s.place(ctx); err != nil {
					return err
				}
			}
		})
	}
	err = group.Wait()
	return float64(total) / time.Since(began).Seconds(), err
}
