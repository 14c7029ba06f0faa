package main

// This file answers: in which order are a batch's events sent? Each aggregate is a lane. The first
// event of every lane may be sent at once; the next one of a lane only after the one before it has
// been confirmed. Two events of one aggregate under way together could arrive in the wrong order:
// the first is returned, the second confirmed.

// lanes hands out a batch's events, by their index, and keeps their results.
type lanes struct {
	batch   []Event
	results []error
	waiting map[aggregate][]int // indexes behind the one handed out, in order
	ready   []int               // indexes that may be sent now
}

// newLanes sorts a batch, in which events of one aggregate are in order, into lanes. Every result
// is errNotSent to begin with.
func newLanes(batch []Event) *lanes {
	l := &lanes{batch: batch, results: make([]error, len(batch)), waiting: map[aggregate][]int{}, ready: make([]int, 0, len(batch))}
	for i, e := range batch {
		l.results[i] = errNotSent
		behind, taken := l.waiting[e.aggregate()]
		if taken {
			behind = append(behind, i)
		} else {
			l.ready = append(l.ready, i)
		}
		l.waiting[e.aggregate()] = behind
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
	lane := l.batch[i].aggregate()
	behind := l.waiting[lane]
	switch {
	case result != nil:
		l.waiting[lane] = nil // the rest stays errNotSent
	case len(behind) > 0:
		l.ready = append(l.ready, behind[0])
		l.waiting[lane] = behind[1:]
	}
}
