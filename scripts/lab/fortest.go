package lab

// How does a test get a lab, and how does it wait for something?

import (
	"context"
	"os"
	"testing"
	"time"

	"example.com/outboxlab/scripts/stack/servers"
	"example.com/outboxlab/scripts/wait"
)

const pollPause = 20 * time.Millisecond

// ForTest makes a lab that is closed when the test ends: on the servers in TEST_DATABASE_URL, TEST_AMQP_URL and
// TEST_RABBITMQ_MANAGEMENT_URL (`stack with` sets them), else on the recorded main stack. Without servers the test fails;
// a test that skips itself looks like one that passes.
func ForTest(t testing.TB) *Lab {
	t.Helper()
	urls := ServersForTest(t)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	l, err := New(ctx, urls)
	if err != nil {
		t.Fatalf("a lab for this test: %v\n%s", err, howToGetServers)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), wait.Limit)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Errorf("close %s: %v", l.Name, err)
		}
	})
	return l
}

const howToGetServers = "tests need PostgreSQL and RabbitMQ: run `make test`, `go run ./scripts/stack with -- go test ./...`, or first `go run ./scripts/stack up`"

// ServersForTest returns where the servers for tests answer, and fails the test when there are none.
func ServersForTest(t testing.TB) servers.URLs {
	t.Helper()
	given := servers.URLs{
		Database:   os.Getenv("TEST_DATABASE_URL"),
		AMQP:       os.Getenv("TEST_AMQP_URL"),
		Management: os.Getenv("TEST_RABBITMQ_MANAGEMENT_URL"),
	}
	switch {
	case given.Database != "" && given.AMQP != "" && given.Management != "":
		return given
	case given != servers.URLs{}:
		t.Fatal("TEST_DATABASE_URL, TEST_AMQP_URL and TEST_RABBITMQ_MANAGEMENT_URL go together: set all three, or none")
	}
	recorded, _, err := servers.Recorded(".")
	if err != nil {
		t.Fatalf("%v\n%s", err, howToGetServers)
	}
	return recorded
}

// Poll asks cond again and again until it is true, and fails the test when it is not within the limit. An error of cond
// counts as "not yet" and is shown if it was the last answer.
func Poll(t testing.TB, within time.Duration, what string, cond func() (bool, error)) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		done, err := cond()
		if err == nil && done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s (last error: %v)", within, what, err)
		}
		time.Sleep(pollPause) //nolint:forbidigo // between two looks at the condition
	}
}
