package lab

// How does a test take the database away? By closing it to everybody: sessions are ended and new ones
// are refused, as in an outage, while other labs on the same server go on.

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// CutDatabase makes the lab's database unreachable and returns what brings it back.
func (l *Lab) CutDatabase(t testing.TB) (restore func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), l.servers.Database)
	if err != nil {
		t.Fatal(err)
	}
	name := quote(l.Name)
	exec := func(sql string, args ...any) {
		if _, err := conn.Exec(context.WithoutCancel(t.Context()), sql, args...); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	exec(`ALTER DATABASE ` + name + ` ALLOW_CONNECTIONS false`)
	exec(`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1`, l.Name)
	restored := false
	restore = func() {
		if !restored {
			restored = true
			exec(`ALTER DATABASE ` + name + ` ALLOW_CONNECTIONS true`)
			_ = conn.Close(context.WithoutCancel(t.Context()))
		}
	}
	t.Cleanup(restore)
	return restore
}
