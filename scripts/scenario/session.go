// How does a story keep a transaction open while others go on? The verb session: connections that last, each with a
// name, as if somebody had several terminals with psql.
package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

var sessionName = regexp.MustCompile(`^[A-Z]$`)

func compileSession(args []string) (action, error) {
	name, statement, _ := strings.Cut(args[0], " ")
	if !sessionName.MatchString(name) || strings.TrimSpace(statement) == "" {
		return nil, usage("session")
	}
	return func(ctx context.Context, s *stage) error {
		conn, err := s.session(ctx, name)
		if err != nil {
			return err
		}
		tag, err := conn.Exec(ctx, statement)
		if err != nil {
			return err
		}
		s.out.note("%s", tag)
		return nil
	}, nil
}

// session returns the connection of that name, opened the first time it is needed.
func (s *stage) session(ctx context.Context, name string) (*pgx.Conn, error) {
	if conn := s.sessions[name]; conn != nil {
		return conn, nil
	}
	conn, err := pgx.Connect(ctx, s.lab.OwnerURL)
	if err != nil {
		return nil, fmt.Errorf("open session %s: %w", name, err)
	}
	s.sessions[name] = conn
	return conn, nil
}

// closeSessions ends them all; what they had not committed is gone.
func (s *stage) closeSessions() {
	for name, conn := range s.sessions {
		_ = conn.Close(context.Background())
		delete(s.sessions, name)
	}
}
