package main

import (
	"errors"
	"testing"

	"example.com/outboxlab/pkg/postgres"
	"example.com/outboxlab/scripts/lab"
)

// The lock that keeps two migrations apart is a session's. In transaction mode it would stay with whoever comes next.
func TestMigrationsNeedSessions(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	for mode, want := range map[string]error{"session": nil, "transaction": postgres.ErrTransactionPooling} {
		through := l.PgBouncer(t, mode)
		env := map[string]string{"DATABASE_URL": through(l.OwnerURL) + "&pool_max_conns=2"}
		for _, command := range []string{"status", "down", "up"} {
			if _, err := lab.Run(t, run, env, command); !errors.Is(err, want) {
				t.Errorf("%s mode, %s: %v", mode, command, err)
			}
		}
	}
}
