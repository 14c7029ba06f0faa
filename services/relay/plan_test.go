package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"example.com/outboxlab/scripts/lab"
)

// A claim among a million published rows and 200,000 that wait for tomorrow reads a few pages, and
// by the indexes made for it: the plan is asked for, not the time. Statistics are as bad as they get:
// never collected.
func TestAClaimReadsOnlyWhatItClaims(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	db := l.Owner(t)
	lab.Exec(t, db, `ALTER TABLE orders.outbox SET (autovacuum_enabled = false)`)
	lab.Exec(t, db, `INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload, published_at, retry_at, attempt_count)
		SELECT 'order', n::text, 'order.placed', '{}', CASE WHEN n <= 1000000 THEN now() END, CASE WHEN n > 1000000 THEN now() + interval '1 day' END, 0
		FROM generate_series(1, 1200000) n`)
	r := newTestRelay(t, l, settings{claim: "tx", batch: 500})
	for _, analysed := range []bool{false, true} {
		if analysed {
			lab.Exec(t, db, `ANALYZE orders.outbox`)
		}
		lab.Exec(t, db, insertEvents, 10)
		for _, c := range []struct {
			lockQuery
			first any // parameter
			probe string
			pages int
		}{
			{lockQuery{sql: selectDue}, 500, "outbox_ready_of_aggregate", 500},
			{lockQuery{sql: selectReady}, 500, "outbox_ready ", 500},
			{lockQuery{selectUnblocked, []any{[]string{"order"}, []string{"1"}}}, 500, "outbox_leased_of_aggregate", 500},
			{lockQuery{selectBatch, []any{maxPayload}}, lab.All[int64](t, db, `SELECT generate_series(1199511, 1200010)`), "outbox_ready ", 2500},
		} {
			plan := strings.Join(lab.All[string](t, r.pool, `EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) `+c.sql, append([]any{c.first, 0}, c.args...)...), "\n")
			if strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Nested Loop") || !strings.Contains(plan, c.probe) {
				t.Errorf("analysed=%v, %s wanted:\n%s", analysed, c.probe, plan)
			}
			if c.sql != selectBatch && (strings.Contains(plan, "outbox_pkey") || strings.Contains(plan, "Sort")) {
				t.Errorf("analysed=%v, rows not found in order:\n%s", analysed, plan)
			}
			if hits := pagesRead(t, plan); hits > c.pages {
				t.Errorf("analysed=%v: %d pages\n%s", analysed, hits, plan)
			}
		}
	}
}

// pagesRead is what the topmost node of a plan says of all below it.
func pagesRead(t *testing.T, plan string) (pages int) {
	t.Helper()
	for _, number := range regexp.MustCompile(`(?:hit|read)=(\d+)`).FindAllStringSubmatch(strings.SplitN(plan, "->", 2)[0], -1) {
		n, err := strconv.Atoi(number[1])
		if err != nil {
			t.Fatal(err)
		}
		pages += n
	}
	return pages
}
