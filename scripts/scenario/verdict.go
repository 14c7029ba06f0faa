// How does a story end? With a verdict: wait for rest, stop every service politely, count, judge the invariants of the
// promise, then what the story itself expects.
package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"example.com/outboxlab/pkg/printable"
	"example.com/outboxlab/scripts/wait"
)

// result is what the closing table shows of one scenario.
type result struct {
	script  *script
	counts  counts
	faults  []string // every ✘, as printed; none = the scenario passed
	seconds float64
}

func (r result) passed() bool { return len(r.faults) == 0 }

// offendersShown is how many ids a ✘ lists.
const offendersShown = 10

// verdict judges the stage after its story. told is the error that ended the story early, if any: then the system is
// counted as it stands, to show what became of it.
func (s *stage) verdict(ctx context.Context, told error) result {
	r := result{script: s.script}
	s.out.flush()
	fault := func(text string) {
		s.out.fail(text)
		r.faults = append(r.faults, text)
	}
	s.out.line("\n  " + s.out.paint(bold, "Verdict"))
	if told != nil {
		r.faults = append(r.faults, told.Error()) // printed where it happened
	}
	for _, err := range s.settle(ctx, told) {
		fault(err.Error())
	}
	c, err := s.count(ctx)
	if err != nil {
		fault("the final count: " + err.Error())
		return r
	}
	r.counts = c
	s.table(c)
	for _, j := range invariants(c) {
		if j.holds() {
			s.out.pass(fmt.Sprintf("%-40s %s", j.claim, j.found))
			continue
		}
		fault(fmt.Sprintf("%-40s %s\n%s", j.claim, j.found, some(j.offenders)))
	}
	var met []string
	for _, e := range s.script.expectations {
		ok, found, err := e.cond.holds(ctx, s)
		if err != nil || !ok {
			fault((&unmet{words: e.words, found: found, err: err}).Error())
			continue
		}
		met = append(met, e.words)
	}
	if len(met) > 0 {
		s.out.pass("in this story: " + strings.Join(met, ", "))
	}
	return r
}

// settle brings the stage to rest and stops the services.
func (s *stage) settle(ctx context.Context, told error) (faults []error) {
	within := wait.Limit
	if told != nil {
		within = min(restAfter, wait.Limit)
		if err := s.mendAll(ctx); err != nil {
			faults = append(faults, err)
		}
	}
	if err := s.finishPlacing(ctx); err != nil {
		faults = append(faults, err)
	}
	began := time.Now()
	if err := s.rest(ctx, within); err != nil {
		faults = append(faults, err)
	} else {
		s.out.note("at rest after %.1f s", time.Since(began).Seconds())
	}
	if err := s.stopAll(ctx); err != nil {
		faults = append(faults, err)
	}
	s.out.flush()
	return faults
}

// mendAll ends what the story has done to the broker: what can still arrive should.
func (s *stage) mendAll(ctx context.Context) error {
	for _, path := range []*networkPath{s.path, s.dbPath} {
		if path == nil {
			continue
		}
		if err := path.mend(ctx); err != nil {
			return err
		}
	}
	return s.calm(ctx)
}

// table prints the counts.
func (s *stage) table(c counts) {
	least := ""
	if c.gaps > 0 {
		least = "≥ " // the broker was away, and with it its firehose
	}
	rows := [][2]string{
		{"orders", fmt.Sprint(len(c.orders))}, {"distinct events", fmt.Sprint(len(c.events))},
		{"publishes", least + fmt.Sprint(len(c.published))}, {"republished", least + fmt.Sprint(c.republished())},
		{"deliveries", least + fmt.Sprint(len(c.delivered))}, {"redeliveries", least + fmt.Sprint(c.redeliveries())},
		{"ledger rows", fmt.Sprint(len(c.ledger))}, {"points", fmt.Sprint(c.points())},
		{"inbox rows", fmt.Sprint(len(c.inbox))}, {"outbox pending", fmt.Sprint(len(c.pending))},
		{"outbox given up", fmt.Sprint(len(c.givenUp))}, {"DLQ", deadByReason(c.dead)},
	}
	for i := 0; i < len(rows); i += 2 {
		text := fmt.Sprintf("      %-17s %8s", rows[i][0], rows[i][1])
		if i+1 < len(rows) {
			text += fmt.Sprintf("      %-17s %8s", rows[i+1][0], rows[i+1][1])
		}
		s.out.line(printable.Text(text))
	}
}

// deadByReason is for example "3 (delivery_limit 1, rejected 2)".
func deadByReason(dead []deadLetter) string {
	by := map[string]int{}
	for _, l := range dead {
		by[l.reason]++
	}
	var reasons []string
	for reason, n := range by {
		reasons = append(reasons, fmt.Sprintf("%s %d", reason, n))
	}
	sort.Strings(reasons)
	if len(reasons) == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", len(dead), strings.Join(reasons, ", "))
}

func some(offenders []string) string {
	if more := len(offenders) - offendersShown; more > 0 {
		return strings.Join(offenders[:offendersShown], ", ") + fmt.Sprintf(" … and %d more", more)
	}
	return strings.Join(offenders, ", ")
}
