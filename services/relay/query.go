package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A claim locks ready rows with one of two queries. selectReady takes them as they come. selectUnblocked passes over rows
// of blocked aggregates, which costs more than all the rest of a claim, so it is used only after such rows were met.

// skipBlockedFor is how long claims use selectUnblocked after a blocked row was met.
const skipBlockedFor = 10 * time.Second

// queryChoice remembers when a claim last met a blocked row. The zero value has met none.
type queryChoice struct{ blockedUntil time.Time }

// lockQuery is one of the two, with its arguments besides limit and floor.
type lockQuery struct {
	sql  string
	args []any
}

// without leaves these rows out. The rows behind them in their aggregate are still not published: they are pending.
func (q lockQuery) without(ids []int64) lockQuery {
	if len(ids) == 0 {
		return q
	}
	condition := fmt.Sprintf(" AND o.id <> ALL($%d)", 3+len(q.args)) // behind limit and floor
	return lockQuery{strings.Replace(q.sql, oPending, oPending+condition, 1), append(slices.Clone(q.args), ids)}
}

// unblocked passes over these aggregates as well, given column by column for SQL.
func unblocked(kinds, ids []string) *lockQuery { return &lockQuery{selectUnblocked, []any{kinds, ids}} }

// first is the query that a claim begins with.
func (c *queryChoice) first() *lockQuery {
	if time.Now().Before(c.blockedUntil) {
		return unblocked(nil, nil)
	}
	return &lockQuery{sql: selectReady}
}

// next remembers what a try with q has met. It returns the query to try now, or nil if another try would find no more.
func (c *queryChoice) next(q lockQuery, claim *Claim) *lockQuery {
	if len(claim.blocked) == 0 {
		return nil
	}
	c.blockedUntil = time.Now().Add(skipBlockedFor)
	if len(claim.Events) > 0 {
		return nil
	}
	if q.sql == selectReady {
		return unblocked(nil, nil)
	}
	kinds, ids := q.args[0].([]string), q.args[1].([]string)
	for _, a := range claim.blocked { // probably blocked by a lock, which the query does not see
		kinds, ids = append(kinds, a.kind), append(ids, a.id)
	}
	return unblocked(kinds, ids)
}
