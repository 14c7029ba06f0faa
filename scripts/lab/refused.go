package lab

// How does a test see that a program refuses bad configuration? By trying each value, with all else as it should be.

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"example.com/outboxlab/pkg/service"
)

// EachIsRefused runs program once for each value of each variable in bad, on top of the environment good, and fails the
// test unless it ends with a usage error that names the variable and keeps passwords (the word "secret") to itself.
func EachIsRefused(t testing.TB, program service.Program, good map[string]string, bad map[string][]string) {
	t.Helper()
	for variable, values := range bad {
		for _, value := range values {
			env := maps.Clone(good)
			env[variable] = value
			_, err := Run(t, program, env)
			if !errors.As(err, new(service.UsageError)) || !strings.Contains(err.Error(), variable) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s=%s: want a usage error that names it, got %v", variable, value, err)
			}
		}
	}
}
