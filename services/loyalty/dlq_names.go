package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"example.com/outboxlab/pkg/events"
	"example.com/outboxlab/pkg/service"
)

// This file answers: which messages are meant? They are named one by one, or chosen by reason, or
// all. Two copies of a message have the same name, and a name means both.

// handleDigits is the length of a handle; 48 bits are enough to tell 100,000 messages apart.
const handleDigits = 12

var nameForm = regexp.MustCompile(`^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8}|@[0-9a-f]{12})$`)

const nameHelp = `ID is a message id, its last 8 digits as in log lines if only one message has them, or the handle,
@ and 12 digits, that list shows for a message without a UUID for an id. Copies of a message share
their ID, and are meant together.`

// selection is the messages meant by a command line, and what was found of them.
type selection struct {
	names  []string
	all    bool
	reason string // with which they died

	found map[string][]string // by name: the different messages that it fits
}

// selectNames refuses what cannot be a name.
func selectNames(names []string) (*selection, error) {
	s := &selection{found: map[string][]string{}}
	for _, name := range names {
		name = strings.ToLower(name)
		if !nameForm.MatchString(name) {
			return nil, service.Usagef("%q is not a message's id: want a UUID, its last 8 digits, or a handle like @1f0c22ab9d41 (loyalty dlq list shows them)", name)
		}
		if !slices.Contains(s.names, name) {
			s.names = append(s.names, name)
		}
	}
	return s, nil
}

// choose returns those letters that are meant.
func (s *selection) choose(letters []letter) []letter {
	if len(s.names) == 0 {
		return slices.DeleteFunc(slices.Clone(letters), func(l letter) bool {
			d, _ := l.lastDeath()
			return !s.all && d.reason != s.reason
		})
	}
	var chosen []letter
	for _, l := range letters {
		meant := false
		for _, name := range s.names {
			if which, fits := l.fits(name); fits {
				meant = true
				if !slices.Contains(s.found[name], which) {
					s.found[name] = append(s.found[name], which)
				}
			}
		}
		if meant {
			chosen = append(chosen, l)
		}
	}
	return chosen
}

// fits tells whether name is one of the letter's, and which message the letter is, as exactly as
// that kind of name can tell.
func (l letter) fits(name string) (which string, fits bool) {
	if strings.HasPrefix(name, "@") {
		return fmt.Sprintf("%x", l.fingerprint()), l.handle() == name
	}
	id, ok := l.uuid()
	return id.String(), ok && (id.String() == name || events.ShortID(id) == name)
}

// complete makes sure that every name was found and means one message. Before that, nothing is done
// to any: half a command because of a slip of the pen is harder to repair than none.
func (s *selection) complete() error {
	var missing []string
	for _, name := range s.names {
		switch fitting := s.found[name]; {
		case len(fitting) == 0:
			missing = append(missing, name)
		case len(fitting) > 1:
			return fmt.Errorf("%s is not unique, nothing was done: it may be %s", name, strings.Join(fitting, " or "))
		}
	}
	if len(missing) > 0 {
		return errors.New("no such message, nothing was done: " + strings.Join(missing, ", "))
	}
	return nil
}

// each scans the queue and lets act deal with the letters meant, at most a windowful at a time: at
// once, or, when they are named, after all have been found.
func (q *deadLetters) each(ctx context.Context, s *selection, act func([]letter) error) (err error) {
	defer func() { err = q.conn.Explain(err) }()
	var named []letter
	err = q.scan(ctx, func(letters []letter) error {
		chosen := s.choose(letters)
		if len(s.names) > 0 {
			named = append(named, chosen...)
			return nil
		}
		return act(chosen)
	})
	if err != nil {
		return err
	}
	if err := s.complete(); err != nil {
		return err
	}
	for letters := range slices.Chunk(named, windowSize) {
		if err := act(letters); err != nil {
			return err
		}
	}
	return nil
}
