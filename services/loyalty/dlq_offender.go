package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	amqp "github.com/rabbitmq/amqp091-go"
)

// This file keeps one dead message from stopping the redrive of the others. The broker ends the session over
// a message that it does not take at all: one that is larger than its limit, or goes to an exchange that is gone or
// closed to us. What was sent together with such a message may have arrived or not, and has to be sent again.
// So a letter that may be one is sent alone, when nothing else is unconfirmed: then it is known which one it was, and
// nothing is published twice.

// route is where letters go.
type route struct{ exchange, key string }

func (l letter) route() route {
	exchange, key, _ := l.origin()
	return route{exchange, key}
}

// experience is what the run has found out about letters that end sessions.
type experience struct {
	routes  map[route]bool  // the broker has answered a letter that went there
	largest int             // bytes of the largest body that it has answered
	refused map[route]error // it takes no letter that goes there

	oneByOne bool // for this windowful: a session has ended over one letter among several
	// lost counts how often in a row the connection was lost without a reason. lostWith are letters that were alone then.
	lost     int
	lostWith map[int]bool
}

// maxLost is how often in a row the connection may be lost without a reason before the broker is given up.
const maxLost = 4

func (e *experience) startWindow() {
	e.oneByOne, e.lostWith = false, map[int]bool{}
}

// harmless notes that the broker has answered the letter, with yes or no, and the session goes on.
func (e *experience) harmless(l letter) {
	e.routes[l.route()], e.largest, e.lost = true, max(e.largest, len(l.Body)), 0
}

// next chooses what to send now: all that is left, if it is like letters that did no harm, or one letter that is not. Of
// those it is the largest, so that a size limit is found out with few. None are left when there is no letter to send.
func (e *experience) next(letters []letter, results []error) (group []int) {
	unlike := -1
	for i, l := range letters {
		if errors.Is(results[i], errNotSent) && e.refused[l.route()] != nil {
			results[i] = e.refused[l.route()]
		}
		if !errors.Is(results[i], errNotSent) {
			continue
		}
		if e.oneByOne {
			return []int{i}
		}
		group = append(group, i)
		if like := e.routes[l.route()] && len(l.Body) <= e.largest; !like && (unlike < 0 || len(l.Body) > len(letters[unlike].Body)) {
			unlike = i
		}
	}
	if unlike >= 0 {
		return []int{unlike}
	}
	return group
}

// goOnAfter deals with the end of a session while the group was under way, and opens another one. If the letter that
// caused it is known, its result says why. Its error means that no letter is to blame, and that no more can be published.
func (p *publisher) goOnAfter(cause error, letters []letter, group []int, results []error) error {
	reason, said := errors.AsType[*amqp.Error](cause)
	said = said && reason.Server
	timeout, stuck := errors.AsType[net.Error](cause)
	switch {
	case said && reason.Code == amqp.ConnectionForced, // the broker stops, or an operator wants us to
		errors.Is(cause, errSilent), stuck && timeout.Timeout():
		return fmt.Errorf("the broker ended the session: %w", cause)
	case said && len(group) == 1:
		results[group[0]] = p.blame(letters[group[0]], reason)
	case said:
		p.sendAgain(group, results)
	default:
		if p.lost++; p.lost > maxLost {
			return fmt.Errorf("the connection to the broker was lost again and again: %w", cause)
		}
		if len(group) == 1 && p.lostWith[group[0]] {
			results[group[0]] = fmt.Errorf("the connection to the broker was lost twice while it was sent alone: %w", cause)
		} else {
			p.lostWith[group[0]] = len(group) == 1
			p.sendAgain(group, results)
		}
	}
	p.close()
	return p.connect(context.Background())
}

// sendAgain has those of the group that may not have arrived sent again, each alone.
func (p *publisher) sendAgain(group []int, results []error) {
	p.oneByOne = true
	for _, i := range group {
		if errors.Is(results[i], errUnconfirmed) {
			results[i] = errNotSent
		}
	}
}

// blame is why the broker has ended the session over this letter. Some reasons hold for all letters that go to the same place.
func (e *experience) blame(l letter, reason *amqp.Error) error {
	err := errors.New("refused by the broker: " + reason.Reason)
	switch reason.Code {
	case amqp.NotFound:
		err = fmt.Errorf("the exchange %q, where it came from, does not exist", l.route().exchange)
		e.refused[l.route()] = err
	case amqp.AccessRefused:
		e.refused[l.route()] = err
	}
	return err
}
