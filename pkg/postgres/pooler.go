package postgres

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// This file finds out whether a connection pooler such as PgBouncer stands before the server, and in which mode.
//
// In session mode a client keeps one server process for its life; everything works. In transaction mode each
// transaction may be given another process: what a session keeps (prepared statements, SET, LISTEN, advisory locks) is
// lost, or found by somebody else.

// probeTimeout bounds the questions that tell of a pooler.
const probeTimeout = 5 * time.Second

// withoutPreparedStatements is a hook for a pool. Behind a pooler it makes connections that prepare no statements, since
// another client's process does not know them, or knows the name already. It asks once, on a connection of its own.
func withoutPreparedStatements(probe *pgx.ConnConfig) func(context.Context, *pgx.ConnConfig) error {
	var mu sync.Mutex
	var known, pooled bool
	return func(ctx context.Context, config *pgx.ConnConfig) error {
		mu.Lock()
		defer mu.Unlock()
		if !known {
			conn, err := pgconn.ConnectConfig(ctx, &probe.Config)
			if err != nil {
				return err
			}
			defer hangUp(ctx, conn)
			if _, pooled, err = serverProcess(ctx, conn); err != nil {
				return err
			}
			known = true
		}
		if pooled {
			config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		}
		return nil
	}
}

// serverProcess returns the process that serves the connection now, and whether it is another than the connection was
// told when it was opened: a pooler makes up numbers of its own, for cancel requests.
func serverProcess(ctx context.Context, conn *pgconn.PgConn) (process int, pooled bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	results, err := conn.Exec(ctx, `SELECT pg_backend_pid()`).ReadAll()
	if err != nil {
		return 0, false, err
	}
	process, err = strconv.Atoi(string(results[0].Rows[0][0]))
	return process, uint32(process) != conn.PID(), err //nolint:gosec // a process number
}

func hangUp(ctx context.Context, conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// ErrTransactionPooling is returned by NeedSession.
var ErrTransactionPooling = errors.New("the database is reached through a connection pooler in transaction mode," +
	" and this needs sessions (LISTEN, settings, locks): set pool_mode=session there, or connect directly")

// poolingTries is how often the two connections of NeedSession ask in turn. Once is enough while nobody else uses the pooler.
const poolingTries = 10

// NeedSession returns ErrTransactionPooling if a pooler at u gives one client's server process to another between
// transactions, another error if that could not be found out, and nil if a connection is a session.
func NeedSession(ctx context.Context, u URL) error {
	config, err := ConnConfig(u.raw)
	if err != nil {
		return err
	}
	one, err := pgconn.ConnectConfig(ctx, &config.Config)
	if err != nil {
		return err
	}
	defer hangUp(ctx, one)
	own, pooled, err := serverProcess(ctx, one)
	if err != nil || !pooled {
		return err
	}
	other, err := pgconn.ConnectConfig(ctx, &config.Config)
	if err != nil {
		return err
	}
	defer hangUp(ctx, other)
	for range poolingTries {
		others, _, err := serverProcess(ctx, other)
		if pgconn.Timeout(err) && ctx.Err() == nil {
			return nil // it waits for the only process, which the first connection keeps
		}
		if err != nil {
			return err
		}
		now, _, err := serverProcess(ctx, one)
		if err != nil {
			return err
		}
		if others == own || now != own {
			return ErrTransactionPooling
		}
	}
	return nil
}
