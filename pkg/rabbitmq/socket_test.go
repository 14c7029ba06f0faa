package rabbitmq

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// pipe is a socket and what arrives at its other end, write by write.
func pipe(t *testing.T) (*socket, <-chan []byte) {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { _ = here.Close(); _ = there.Close() })
	arrived := make(chan []byte, 100)
	go func() {
		defer close(arrived)
		for {
			buffer := make([]byte, 1<<20) // a pipe's Read returns what one Write has written
			n, err := there.Read(buffer)
			if err != nil {
				return
			}
			arrived <- buffer[:n]
		}
	}()
	return &socket{Conn: here}, arrived
}

func TestWhatIsWrittenTogetherGoesOutTogether(t *testing.T) {
	t.Parallel()
	s, arrived := pipe(t)
	c := &Conn{socket: s}
	write := func(text string) {
		if n, err := io.WriteString(s, text); n != len(text) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	write("alone")
	err := c.Together(func() error {
		write("a")
		write("b")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	write("after")
	for _, want := range []string{"alone", "ab", "after"} {
		if got := <-arrived; string(got) != want {
			t.Errorf("%q arrived, want %q", got, want)
		}
	}
}

// A long run does not wait for its end: the broker gets something to do meanwhile.
func TestGatheringIsBounded(t *testing.T) {
	t.Parallel()
	s, arrived := pipe(t)
	message := bytes.Repeat([]byte("m"), gatherSize/4)
	s.gather()
	for range 5 {
		if _, err := s.Write(message); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-arrived; len(got) != gatherSize {
		t.Errorf("%d bytes arrived before the end, want %d", len(got), gatherSize)
	}
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	if got := <-arrived; len(got) != len(message) {
		t.Errorf("%d bytes arrived at the end, want %d", len(got), len(message))
	}
}

// What fails only when gathering ends is told, too.
func TestTogetherTellsOfAFailedWrite(t *testing.T) {
	t.Parallel()
	s, _ := pipe(t)
	if err := s.SetDeadline(time.Now().Add(-time.Second)); err != nil { // as for a farewell that is over
		t.Fatal(err)
	}
	err := (&Conn{socket: s}).Together(func() error {
		_, err := io.WriteString(s, "x")
		return err
	})
	if err == nil {
		t.Error("a write that failed was not told")
	}
}

// Half a frame may have gone out: what followed it would be read as its second half.
func TestNothingFollowsAFailedWrite(t *testing.T) {
	t.Parallel()
	s, arrived := pipe(t)
	if err := s.SetDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(s, "x"); err == nil {
		t.Fatal("no deadline")
	}
	if err := s.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(s, "y"); err == nil {
		t.Error("written after a failure")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if after, more := <-arrived; more {
		t.Errorf("%q arrived", after)
	}
}
