package main

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// link is a network path to the broker that a test can cut, without a word to either end.
type link struct {
	url string // of the broker, over this path

	mu    sync.Mutex
	conns []net.Conn
}

func (s stage) link(t *testing.T) *link {
	t.Helper()
	broker, err := url.Parse(s.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{}
	t.Cleanup(func() { _ = listener.Close(); l.cut() })
	target := broker.Host
	broker.Host = listener.Addr().String()
	l.url = broker.String()
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target)
			if err != nil {
				_ = near.Close()
				continue
			}
			l.mu.Lock()
			l.conns = append(l.conns, near, far)
			l.mu.Unlock()
			go carry(near, far)
			go carry(far, near)
		}
	}()
	return l
}

func carry(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
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
