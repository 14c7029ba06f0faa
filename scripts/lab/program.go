package lab

// How does a test run a service? In its own process, as the function that main calls, with an environment and an output
// of its own. What needs a process of its own (kill -9, exit codes) is for the scenarios.

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"sync"
	"testing"
	"time"

	"example.com/outboxlab/pkg/service"
	"example.com/outboxlab/scripts/wait"
)

// Running is a program that a test has started.
type Running struct {
	t      testing.TB
	cancel context.CancelFunc
	done   chan struct{}
	err    error // valid once done is closed
	output output
}

// Start runs program until Stop, or until the test ends. If the test fails, what the program printed is shown.
func Start(t testing.TB, program service.Program, env map[string]string, args ...string) *Running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &Running{t: t, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = program(ctx, args, func(name string) string { return env[name] }, &r.output)
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
		if t.Failed() {
			t.Logf("%v printed:\n%s", args, r.Output())
		}
	})
	return r
}

// Run runs program to its end and returns what it printed and its error.
func Run(t testing.TB, program service.Program, env map[string]string, args ...string) (string, error) {
	t.Helper()
	r := Start(t, program, env, args...)
	<-r.done
	return r.Output(), r.err
}

// Stop asks the program to stop, as SIGTERM does, and returns its error.
func (r *Running) Stop() error {
	r.t.Helper()
	r.cancel()
	select {
	case <-r.done:
		return r.err
	case <-time.After(wait.Limit):
		r.t.Fatalf("still running %v after it was asked to stop", wait.Limit)
		return nil
	}
}

// Ask asks the program to stop and does not wait for it.
func (r *Running) Ask() { r.cancel() }

// Output is what the program has printed so far.
func (r *Running) Output() string { return r.output.String() }

// AwaitOutput waits until the program has printed something that matches the pattern, and returns the first group of it.
func (r *Running) AwaitOutput(pattern string) string {
	r.t.Helper()
	expression := regexp.MustCompile(pattern)
	var found []string
	Poll(r.t, wait.Limit, "printed: "+pattern, func() (bool, error) {
		ended := false
		select {
		case <-r.done: // before the output is read, or its last words could be missed
			ended = true
		default:
		}
		if found = expression.FindStringSubmatch(r.Output()); found == nil && ended {
			return false, errors.Join(errors.New("the program has ended"), r.err)
		}
		return found != nil, nil
	})
	return found[len(found)-1]
}

// URL is where the program says that it listens.
func (r *Running) URL() string {
	r.t.Helper()
	return r.AwaitOutput(`listening on (http://\S+)`)
}

// output is a buffer that may be read while it is written.
type output struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.String()
}
