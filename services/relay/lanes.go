package main

// This file answers: in which order are a batch's events sent? Each aggregate is a lane. The first
// event of every lane may be sent at once; the next one of a lane only after the one before it has
// been confirmed. Two events of one aggregate under way together could arrive in the wrong order:
// the first is returned, the second confirmed.

// lanes hands out a batch's events, by their index, and keeps their results.
type lanes struct {
	batch   []Event
	results []error
	behind  []int // by index: the next event of the same aggregate, 0 = none
	ready   []int // indexes that may be sent now
}

// newLanes sorts a batch, in which events of one aggregate are in order, into lanes. Every result
// is errNotSent to begin with.
func newLanes(batch []Event) *lanes {
	n := len(batch)
	l := &lanes{batch: batch, results: make([]error, n), behind: make([]int, n), ready: make([]int, 0, n)}
	last := make(map[aggregate]int, n)
	for i, e := range batch {
		l.results[i] = errNotSent
		if before, taken := last[e.aggregate()]; taken {
			l.behind[before] = i
		} else {
			l.ready = append(l.ready, i)
		}
		last[e.aggregate()] = i
	}
	return l
}

// next is the index of an event that may be sent now.
func (l *lanes) next() (i int, ok bool) {
	if len(l.ready) == 0 {
		return 0, false
	}
	i, l.ready = l.ready[0], l.ready[1:]
	return i, true
}

// done records the result of an event handed out: its lane goes on, or, if it has failed, stops.
func (l *lanes) done(i int, result error) {
	l.results[i] = result
	if result == nil && l.behind[i] > 0 {
		l.ready = append(l.ready, l.behind[i]) // else what is behind stays errNotSent
	}
}
