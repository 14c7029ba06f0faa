package main

// Who is on stage? This is the loop that starts the services, hears who dies, obeys the keyboard
// and ends everybody.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"example.com/outboxlab/scripts/stack/servers"
)

// cast lists the services in the order in which an order meets them.
var cast = []string{"orders", "relay", "loyalty"}

type stage struct {
	urls       servers.URLs
	transcript *transcript
	commands   <-chan command // nil without a keyboard
	children   map[string]*child
	deaths     chan *child
}

func newStage(urls servers.URLs, t *transcript) *stage {
	return &stage{urls: urls, transcript: t, children: map[string]*child{}, deaths: make(chan *child)}
}

// play runs until ctx ends. It fails when a service cannot be started, or when, without a keyboard
// to start it again, the last one has died.
func (s *stage) play(ctx context.Context) error {
	defer s.endAll()
	for _, name := range cast {
		if err := s.start(ctx, name, os.Environ()); err != nil {
			return err
		}
	}
	greeted := make(chan struct{})
	first := s.all() // the map changes when one is started again
	go func() {
		for _, c := range first {
			c.awaitReady(ctx)
		}
		close(greeted)
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-greeted:
			s.greet()
			greeted = nil
		case c := <-s.deaths:
			s.mourn(c)
			if greeted != nil && c.address() == "" {
				return errors.New(c.name + " could not start; its last line tells why")
			}
			if s.commands == nil && !slices.ContainsFunc(s.all(), (*child).running) {
				return errors.New("all three services have ended")
			}
		case order, open := <-s.commands:
			if !open {
				s.commands = nil
				continue
			}
			s.obey(ctx, order)
		}
	}
}

// start runs a service, under its own database role, with the variables the user has set.
func (s *stage) start(ctx context.Context, name string, user []string) error {
	variables, err := environment(name, user, s.urls)
	if err != nil {
		return err
	}
	c, err := startChild(name, variables, s.transcript)
	if err != nil {
		return err
	}
	s.children[name] = c
	go func() {
		<-c.ended
		select {
		case s.deaths <- c:
		case <-ctx.Done():
		}
	}()
	return nil
}

// obey starts a service again, with the variables typed behind its name and without the crash
// flags it had: a crash is for once.
func (s *stage) obey(ctx context.Context, order command) {
	if order.problem != "" {
		s.transcript.say("up", order.problem)
		return
	}
	if c := s.children[order.service]; c.running() {
		s.transcript.say("up", "ending "+c.name+" to start it again")
		c.end()
	}
	user := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CRASH_") })
	if err := s.start(ctx, order.service, append(user, order.variables...)); err != nil {
		s.transcript.say("up", err.Error())
	}
}

func (s *stage) mourn(c *child) {
	if c.asked.Load() {
		return
	}
	again := fmt.Sprintf("in another terminal: (eval \"$(go run ./scripts/stack env %s)\"; export %s; bin/%s)", c.name, strings.Join(defaults, " "), c.name)
	if s.commands != nil {
		again = "type " + c.name + " and Enter"
	}
	s.transcript.say("up", fmt.Sprintf("%s ended: %s. The others keep running. To start it again, %s", c.name, c.epitaph(), again))
}

// endAll ends the services together, so that they drain at the same time.
func (s *stage) endAll() {
	for _, c := range s.all() {
		c.asked.Store(true)
	}
	ends := make(chan string)
	for _, c := range s.all() {
		go func() {
			if c.running() && c.end() {
				ends <- c.name + " did not end in time and was killed"
				return
			}
			ends <- c.name + " ended: " + c.epitaph()
		}()
	}
	for range s.all() {
		s.transcript.say("up", <-ends)
	}
}

func (s *stage) all() (present []*child) {
	for _, name := range cast {
		if c := s.children[name]; c != nil {
			present = append(present, c)
		}
	}
	return present
}
