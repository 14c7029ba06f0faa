// When does an `await` or `expect` hold? This file parses and judges conditions: a measure, its arguments, a comparison.
//
//	points 101 = 120
//	holding relay and pending > 0
//	waits 1 at-least 1 2 3 4 5
//
// The measures themselves, each a question to HTTP, SQL, the broker or a process, are in measures.go.
package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// condition is one or more clauses that must all hold.
type condition []clause

// clause compares one measure with what the script says.
type clause struct {
	measure measure
	args    []string
	op      string
	want    []float64
}

// late is by how many seconds `at-least` lets a time fall short. The runner may learn of an event late on a busy machine, and
// of the next one at once, which makes the time between them look shorter than it was. How much longer it was is not judged.
const late = 0.5

func isOperator(word string) bool {
	switch word {
	case "=", "!=", "<", "<=", ">", ">=", "at-least":
		return true
	}
	return false
}

// parseCondition reads `CLAUSE {and CLAUSE}`; a clause without comparison means "> 0".
func parseCondition(words []string) (condition, error) {
	var cond condition
	for _, part := range splitWords(words, "and") {
		c, err := parseClause(part)
		if err != nil {
			return nil, err
		}
		cond = append(cond, c)
	}
	return cond, nil
}

func splitWords(words []string, separator string) [][]string {
	parts := [][]string{nil}
	for _, w := range words {
		if w == separator {
			parts = append(parts, nil)
			continue
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], w)
	}
	return parts
}

func parseClause(words []string) (clause, error) {
	if len(words) == 0 {
		return clause{}, fmt.Errorf("a condition is missing")
	}
	m, known := measures[words[0]]
	if !known {
		return clause{}, fmt.Errorf("no measure is called %q; --help lists them", words[0])
	}
	c := clause{measure: m, op: ">", want: []float64{0}}
	rest := words[1:]
	for i, w := range rest {
		if !isOperator(w) {
			continue
		}
		c.op, c.want = w, nil
		for _, number := range rest[i+1:] {
			value, err := strconv.ParseFloat(number, 64)
			if err != nil {
				return clause{}, fmt.Errorf("%q is not a number to compare %s with", number, words[0])
			}
			c.want = append(c.want, value)
		}
		rest = rest[:i]
		break
	}
	c.args = rest
	if len(c.want) == 0 || (c.op != "at-least" && len(c.want) > 1) {
		return clause{}, fmt.Errorf("%s %s wants one number", words[0], c.op)
	}
	if len(c.args) < m.least || len(c.args) > m.most {
		return clause{}, fmt.Errorf("usage: %s", m.usage)
	}
	return c, nil
}

// holds judges every clause now. found tells what was seen, also when it holds.
func (cond condition) holds(ctx context.Context, s *stage) (ok bool, found string, err error) {
	ok = true
	var seen []string
	for _, c := range cond {
		got, err := c.measure.ask(ctx, s, c.args)
		if err != nil {
			return false, "", err
		}
		ok = ok && c.compare(got)
		seen = append(seen, numbers(got))
	}
	return ok, strings.Join(seen, " and "), nil
}

func (c clause) compare(got []float64) bool {
	if c.op == "at-least" {
		if len(got) != len(c.want) {
			return false
		}
		for i, want := range c.want {
			if got[i] < want-late {
				return false
			}
		}
		return true
	}
	if len(got) != 1 {
		return false
	}
	found, want := got[0], c.want[0]
	switch c.op {
	case "=":
		return found == want
	case "!=":
		return found != want
	case "<":
		return found < want
	case "<=":
		return found <= want
	case ">":
		return found > want
	default: // ">=", the last operator parseClause lets through
		return found >= want
	}
}

// numbers prints values as a person would: whole ones without a point, seconds with one digit.
func numbers(values []float64) string {
	if len(values) == 0 {
		return "nothing"
	}
	words := make([]string, len(values))
	for i, v := range values {
		if v == float64(int64(v)) {
			words[i] = strconv.FormatInt(int64(v), 10)
		} else {
			words[i] = strconv.FormatFloat(v, 'f', 1, 64)
		}
	}
	return strings.Join(words, " ")
}
