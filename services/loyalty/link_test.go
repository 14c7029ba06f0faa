package main

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// link is a network path to a server that a test can cut, or make swallow everything, without a word
// to either end.
type link struct {
	url string // of the server, over this path

	mu    sync.Mutex
	conns []*end
	// poison, if not empty, breaks the connection over which a client sends it.
	poison []byte
}

// end is one end of a connection over the path.
type end struct {
	net.Conn
	mute atomic.Bool // what is written disappears
}

func (e *end) Write(p []byte) (int, error) {
	if e.mute.Load() {
		return len(p), nil
	}
	return e.Conn.Write(p)
}

func newLink(t *testing.T, to string) *link {
	t.Helper()
	server, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{}
	t.Cleanup(func() { _ = listener.Close(); l.cut() })
	target := server.Host
	server.Host = listener.Addr().String()
	l.url = server.String()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			service, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			near, far := &end{Conn: client}, &end{Conn: service}
			l.mu.Lock()
			l.conns = append(l.conns, near, far)
			poison := l.poison
			l.mu.Unlock()
			go carry(near, far, nil)
			go carry(far, near, poison)
		}
	}()
	return l
}

func carry(to, from net.Conn, poison []byte) {
	defer func() { _ = to.Close() }()
	if len(poison) == 0 {
		_, _ = io.Copy(to, from)
		return
	}
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil || bytes.Contains(buffer[:n], poison) {
			_ = from.Close()
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// breakOn makes new connections break when a client sends these bytes.
func (l *link) breakOn(poison string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.poison = []byte(poison)
}

// cut breaks every connection; new ones are possible at once.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}

// mute makes every connection swallow what is sent, in both directions; new ones work.
func (l *link) mute() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.mute.Store(true)
	}
}
