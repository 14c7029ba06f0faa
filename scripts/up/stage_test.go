package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"example.com/outboxlab/scripts/stack/servers"
	"example.com/outboxlab/scripts/wait"
)

// fakeService stands in for all three binaries: it tells where it listens, dies with code 1 when a
// crash flag is set, and says so when it is asked to end.
const fakeService = `#!/bin/sh
me=$(basename "$0")
trap 'echo "[$me] drained"; exit 0' TERM
echo "[$me] listening on $FAKE_URL as $DATABASE_URL $LOG_LEVEL"
[ -z "$CRASH_AT" ] || exit 1
while :; do sleep 0.05; done
`

// lines is an io.Writer that the test can wait on.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// await reads on until every text has been seen in some line, in any order.
func (l lines) await(t *testing.T, texts ...string) {
	t.Helper()
	deadline := time.After(wait.Limit)
	seen := ""
	for _, text := range texts {
		for !strings.Contains(seen, text) {
			select {
			case line := <-l:
				seen += line
			case <-deadline:
				t.Fatalf("no line with %q in:\n%s", text, seen)
			}
		}
	}
}

// playFakes plays with fake binaries until cancel; done gets what play returned.
func playFakes(t *testing.T, commands chan command) (out lines, cancel func(), done chan error) {
	t.Helper()
	ready := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(ready.Close)
	t.Chdir(t.TempDir())
	t.Setenv("FAKE_URL", ready.URL)
	if err := os.Mkdir("bin", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range cast {
		if err := os.WriteFile("bin/"+name, []byte(fakeService), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	out, done = make(lines, 1000), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	s := newStage(servers.URLs{Database: "postgres://owner:pw@127.0.0.1:1/lab", AMQP: "amqp://127.0.0.1:2/"}, newTranscript(out, false))
	s.commands = commands
	go func() {
		runtime.LockOSThread() // as main does
		done <- s.play(ctx)
	}()
	return out, cancel, done
}

// wantReturn waits until play returns.
func wantReturn(t *testing.T, done chan error, want string) {
	t.Helper()
	select {
	case err := <-done:
		if got := errorText(err); got != want {
			t.Errorf("play returned %q, want %q", got, want)
		}
	case <-time.After(wait.Limit):
		t.Fatal("play does not return")
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestCrashIsToldAndOnlyThatServiceStartsAgain(t *testing.T) {
	commands := make(chan command)
	out, cancel, done := playFakes(t, commands)
	defer cancel()
	out.await(t, "[up] 3. lose nothing       type here: relay CRASH_AT=relay.after-publish", "ctrl-C ends")

	commands <- parseCommand([]string{"relay", "CRASH_AT=relay.after-publish"})
	out.await(t, "[up] ending relay to start it again", "[relay] drained",
		"[up] relay ended: exit code 1. The others keep running. To start it again, type relay and Enter")

	commands <- parseCommand([]string{"relay"})
	out.await(t, "[relay] listening on http://127.0.0.1:")

	commands <- parseCommand([]string{"relays"})
	out.await(t, "[up] type orders, relay or loyalty to start one again")

	cancel()
	out.await(t, "[orders] drained", "[up] orders ended: exit code 0", "[up] relay ended: exit code 0", "[up] loyalty ended: exit code 0")
	wantReturn(t, done, "")
}

func TestEveryServiceRunsUnderItsOwnRole(t *testing.T) {
	out, cancel, done := playFakes(t, nil)
	out.await(t, "as postgres://orders_app:orders_app@127.0.0.1:1/lab debug",
		"as postgres://relay_app:relay_app@127.0.0.1:1/lab debug", "as postgres://loyalty_app:loyalty_app@127.0.0.1:1/lab debug")
	cancel()
	wantReturn(t, done, "")
}

// Without a keyboard nobody could start them again, so the end of the last one is the end.
func TestAllDeadWithoutAKeyboardIsAFailure(t *testing.T) {
	t.Setenv("CRASH_AT", "orders.after-commit")
	out, cancel, done := playFakes(t, nil)
	defer cancel()
	out.await(t, "(eval \"$(go run ./scripts/stack env loyalty)\"; export LOG_LEVEL=debug RELAY_ADDR=127.0.0.1:8082; bin/loyalty)")
	wantReturn(t, done, "all three services have ended")
}
