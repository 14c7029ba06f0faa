// Package wait holds the one limit for whatever tests, stories and the by-hand page wait for.
package wait

import (
	"os"
	"time"
)

// Limit is how long a wait for a condition may take before it fails. It is far above what any
// condition takes on a slow and busy machine, since a wait ends as soon as its condition holds: a
// long limit costs time only where something is broken. TEST_WAIT_LIMIT (such as 30s) sets another,
// for runs in which tests are expected to fail.
var Limit = limit(os.Getenv("TEST_WAIT_LIMIT"))

const usual = 5 * time.Minute

// limit ignores what is not a duration: a misspelt one must not make every test fail at once.
func limit(set string) time.Duration {
	if d, err := time.ParseDuration(set); err == nil && d > 0 {
		return d
	}
	return usual
}
