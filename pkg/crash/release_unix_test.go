//go:build unix

package crash

import (
	"syscall"
	"testing"
	"time"

	"example.com/outboxlab/scripts/wait"
)

// A signal that comes before the hold neither ends the process nor releases it later; the one that
// comes while it holds does. What comes to the point after that passes, and a signal then does nothing.
func TestAHoldLastsUntilItIsReleased(t *testing.T) {
	said := make(chan string)
	plan := Plan{Point: RelayMidBatch, Hit: 1, Hold: true}
	a := arm(plan, func(line string) { said <- line })
	next := func() string {
		select {
		case line := <-said:
			return line
		case <-time.After(wait.Limit):
			t.Fatal("nothing was said")
			return ""
		}
	}

	signalItself(t)
	a.awaitSignal(t)
	passed := make(chan struct{})
	go func() { a.hit([]string{"17"}); close(passed) }()
	if line := next(); line != "holding at relay.mid-batch" || len(a.release) > 0 {
		t.Errorf("said %q, with %d signals waiting", line, len(a.release))
	}
	a.hit([]string{"18"}) // somebody else at the same point
	signalItself(t)
	if line := next(); line != "released at relay.mid-batch" {
		t.Errorf("said %q", line)
	}
	<-passed
	a.hit([]string{"17"})
	signalItself(t)
	a.awaitSignal(t)
}

func signalItself(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
}

// awaitSignal waits until a signal has come through, which the system delivers in its own time, and
// leaves it there.
func (a *arming) awaitSignal(t *testing.T) {
	t.Helper()
	select {
	case signal := <-a.release:
		a.release <- signal
	case <-time.After(wait.Limit):
		t.Fatal("no signal came")
	}
}
