package main

import (
	"errors"
	"fmt"
	"testing"
)

// A batch of three aggregates, sent as the lanes allow. The first event of each may go at
// once; the next one of an aggregate after the one before it is done; none after a failed one.
func TestTheLanesOfABatch(t *testing.T) {
	var batch []Event
	for _, aggregate := range []string{"a", "a", "b", "a", "c", "b"} {
		batch = append(batch, Event{AggregateID: aggregate})
	}
	l := newLanes(batch)
	handedOut := func() (all []int) {
		for i, ok := l.next(); ok; i, ok = l.next() {
			all = append(all, i)
		}
		return all
	}
	want := func(step string, got, want []int) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%s: %v handed out, want %v", step, got, want)
		}
	}
	want("at first", handedOut(), []int{0, 2, 4})
	l.done(0, nil)
	want("after the first of a", handedOut(), []int{1})
	bad := &attemptError{"test", "bad"}
	l.done(2, bad)
	want("after the first of b failed", handedOut(), nil)
	l.done(1, nil)
	l.done(4, nil)
	want("after the second of a, and c", handedOut(), []int{3})
	for i, result := range []error{nil, nil, bad, errNotSent, nil, errNotSent} {
		if !errors.Is(l.results[i], result) {
			t.Errorf("event %d: %v, want %v", i, l.results[i], result)
		}
	}
}
