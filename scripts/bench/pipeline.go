package main

// Orders go through everything, from the HTTP request to the ledger, at the highest rate that leaves no backlog. In each
// round that rate is searched by halving, a few seconds for each try; the median of the rounds must hold for a minute. The
// customers of this program use the same cores, so the answer is a modest one.

import (
	"context"
	"errors"
	"fmt"
	"time"
)

func pipelineRate(ctx context.Context, r *rig) error {
	return r.at(ctx, func(s *site) error {
		for _, service := range []string{"relay", "loyalty"} {
			if _, err := s.start(ctx, service); err != nil {
				return err
			}
		}
		orders, err := s.start(ctx, "orders", "DATABASE_URL="+s.manyConnections())
		if err != nil {
			return err
		}
		p := &pipeline{site: s, shop: newShop(orders), note: r.note}
		var flat float64 // of this round
		measures, err := r.compare(
			contestant{name: "orders accepted flat out, backlog growing or not", ceiling: true, run: func() ([]reading, error) {
				readings, err := flatOut(ctx, customers, r.probe, p.shop.place)
				if err != nil {
					return nil, err
				}
				flat = readings[0].value
				return readings, p.settle(ctx)
			}},
			contestant{name: fmt.Sprintf("HTTP order to ledger, kept for %v", r.probe), run: func() ([]reading, error) {
				perSecond, err := p.search(ctx, flat, r.steps, r.probe)
				return rate(perSecond, "orders/s"), err
			}})
		if err != nil {
			return err
		}
		kept, err := p.confirm(ctx, measures[1].Value, r.sustain)
		if err != nil {
			return err
		}
		long := series(fmt.Sprintf("HTTP order to ledger, kept for %v", r.sustain), "orders/s", []float64{kept})
		r.report(append(measures, long.to(measures[0]))...)
		return nil
	})
}

// pipeline is all three services and who orders there.
type pipeline struct {
	*site
	shop *shop
	note func(format string, args ...any)
}

const (
	// onPace: a rate that the customers cannot reach is not kept.
	onPace = 0.98
	// slack is the backlog that counts as none, in seconds of orders.
	slack = 0.5
)

// search returns the highest rate, of steps tried, that is kept.
func (p *pipeline) search(ctx context.Context, most float64, steps int, lasting time.Duration) (float64, error) {
	low, high := 0.0, most
	for range steps {
		rate := (low + high) / 2
		kept, err := p.keeps(ctx, rate, lasting)
		if err != nil {
			return 0, err
		}
		if kept {
			low = rate
		} else {
			high = rate
		}
	}
	if low == 0 {
		return 0, errors.New("no rate was kept")
	}
	return low, nil
}

// confirm goes down from rate by tenths until one is kept for that long.
func (p *pipeline) confirm(ctx context.Context, rate float64, lasting time.Duration) (float64, error) {
	for range 10 {
		kept, err := p.keeps(ctx, rate, lasting)
		if err != nil || kept {
			return rate, err
		}
		rate *= 0.9
	}
	return 0, fmt.Errorf("not even %.0f orders/s were kept for %v", rate, lasting)
}

// keeps places orders at that rate, and tells whether they were accepted in time and awarded by the end.
func (p *pipeline) keeps(ctx context.Context, rate float64, lasting time.Duration) (bool, error) {
	really, err := p.shop.steadily(ctx, rate, lasting)
	if err != nil {
		return false, err
	}
	backlog, err := p.backlog(ctx)
	if err != nil {
		return false, err
	}
	kept := really >= onPace*rate && float64(backlog) <= slack*rate+1
	p.note("%.0f orders/s for %v: placed %.0f/s, %d on their way at the end", rate, lasting, really, backlog)
	return kept, p.settle(ctx)
}

// settle waits until every order has been awarded.
func (p *pipeline) settle(ctx context.Context) error {
	return until(ctx, "every order awarded", drainWithin, 50*time.Millisecond, func() (bool, error) {
		backlog, err := p.backlog(ctx)
		return backlog == 0, err
	})
}

// backlog is how many orders are not in the ledger yet.
func (p *pipeline) backlog(ctx context.Context) (n int64, err error) {
	err = p.db.QueryRow(ctx, `SELECT (SELECT count(*) FROM orders.orders) - (SELECT count(*) FROM loyalty.ledger)`).Scan(&n)
	return n, err
}
