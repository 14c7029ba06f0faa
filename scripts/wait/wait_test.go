package wait

import (
	"testing"
	"time"
)

func TestLimitIsLongUnlessSaidOtherwise(t *testing.T) {
	for set, want := range map[string]time.Duration{"": usual, "30s": 30 * time.Second, "soon": usual, "-1s": usual, "0s": usual} {
		if got := limit(set); got != want {
			t.Errorf("%q: %v, want %v", set, got, want)
		}
	}
}
