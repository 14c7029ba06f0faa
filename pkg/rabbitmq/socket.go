package rabbitmq

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// This file answers: what lies between the client library and the network? A socket on which no
// write waits for longer than writeTimeout, on which a deadline for the farewell stands, and which
// can gather what is written.

// socket is the library's network connection. The library sets a deadline for the farewell once
// (SetDeadline) and then moves the read deadline on with every frame that comes: a broker under a
// memory alarm goes on sending heartbeats and never answers the farewell.
type socket struct {
	net.Conn
	farewell atomic.Bool

	mu        sync.Mutex // for writing
	gathering bool
	gathered  []byte
	failed    error // of a write: nothing may follow, the other side would read on in the middle of a frame
}

// gatherSize is after how many bytes they are written: about 40 small messages.
const gatherSize = 16 << 10

// Together gathers what send writes to the connection, so that it goes out in few writes instead of
// one for each message. Without an error everything has been written when it returns. The error is
// send's, or that of a write, after which the connection is of no use.
func (c *Conn) Together(send func() error) error {
	c.socket.gather()
	err := send()
	if flushed := c.socket.flush(); err == nil {
		err = flushed
	}
	return err
}

func (s *socket) gather() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gathering = true
}

// flush ends gathering.
func (s *socket) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gathering = false
	return s.writeGathered()
}

// Write is called by the library, one call at a time or several: a heartbeat has a goroutine of its own.
func (s *socket) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gathered = append(s.gathered, p...)
	if s.gathering && len(s.gathered) < gatherSize {
		return len(p), nil
	}
	return len(p), s.writeGathered()
}

func (s *socket) writeGathered() error {
	if s.failed != nil || len(s.gathered) == 0 {
		return s.failed
	}
	if !s.farewell.Load() {
		if err := s.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
	}
	_, s.failed = s.Conn.Write(s.gathered)
	s.gathered = s.gathered[:0]
	return s.failed
}

// SetDeadline is called by the library to clear the deadline after the handshake, and for the farewell.
func (s *socket) SetDeadline(t time.Time) error {
	s.farewell.Store(!t.IsZero())
	return s.Conn.SetDeadline(t)
}

func (s *socket) SetReadDeadline(t time.Time) error {
	if s.farewell.Load() {
		return nil
	}
	return s.Conn.SetReadDeadline(t)
}
