// Package postgres answers: how does a service reach its database, and when is it unreachable?
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/pkg/service"
)

// URL is a PostgreSQL connection URL. It prints itself without the password.
type URL struct{ raw string }

// UnmarshalText accepts postgres://user:password@host:port/database?option=value.
func (u *URL) UnmarshalText(text []byte) error {
	parsed, err := url.Parse(string(text))
	if err != nil || (parsed.Scheme != "postgres" && parsed.Scheme != "postgresql") || parsed.Host == "" {
		return errors.New("must be a URL like postgres://user:password@127.0.0.1:5432/database")
	}
	if _, err := pgxpool.ParseConfig(string(text)); err != nil {
		if cause := errors.Unwrap(err); cause != nil {
			err = cause // without the URL, which has the password in it
		}
		return fmt.Errorf("not a usable PostgreSQL URL%s: %w", alsoRead(os.Environ()), err)
	}
	u.raw = string(text)
	return nil
}

// alsoRead names the variables from which pgx, like psql, takes what a URL leaves out: the mistake may be in one of them.
func alsoRead(environment []string) string {
	var names []string
	for _, variable := range environment {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "PG") && name != "PGDATA" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf(" (with %s of the environment)", strings.Join(names, ", "))
}

// String is the URL with its password masked.
func (u URL) String() string {
	parsed, err := url.Parse(u.raw)
	if err != nil {
		return "(unreadable)"
	}
	query := parsed.Query()
	for _, secret := range []string{"password", "sslpassword"} {
		if query.Has(secret) {
			query.Set(secret, "xxxxx")
			parsed.RawQuery = query.Encode()
		}
	}
	return parsed.Redacted()
}

// Reveal is the URL with its password, for connecting.
func (u URL) Reveal() string { return u.raw }

// Options of Open; the zero value is fine.
type Options struct {
	// IdleInTransaction ends a session whose transaction waits for its client longer than this, which frees the
	// rows that a frozen client has locked. 0 = never.
	IdleInTransaction time.Duration
	// NoJIT keeps the server from compiling queries. One that probes an index for every row looks
	// expensive to the planner and is done before the compiler would be.
	NoJIT bool
}

// Open makes a pool of connections that carry name in the server's lists. It does not connect: a pool
// outlives its server, so a service starts, and answers that it is not ready, before the database does.
//
// Connections to a server that only reads are refused, so that after a failover the pool finds the
// new primary instead of staying with the old one (jackc/pgx#2207).
func Open(u URL, name string, o Options) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(u.raw)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(u.raw, "pool_max_conns=") {
		config.MaxConns = 10
	}
	config.ConnConfig.RuntimeParams["application_name"] = name
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	if config.ConnConfig.ValidateConnect == nil {
		config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if o.IdleInTransaction > 0 {
		config.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = fmt.Sprint(o.IdleInTransaction.Milliseconds())
	}
	if o.NoJIT {
		config.ConnConfig.RuntimeParams["jit"] = "off"
	}
	return pgxpool.NewWithConfig(context.Background(), config)
}

// Ready asks the server one question: does it answer, can it be written to, and has it the table? The
// connections to one that only reads are dropped: the next ones find the new primary.
func Ready(ctx context.Context, pool *pgxpool.Pool, table string) error {
	var readOnly string
	var there bool
	err := pool.QueryRow(ctx, `SELECT current_setting('transaction_read_only'), to_regclass($1) IS NOT NULL`, table).Scan(&readOnly, &there)
	switch {
	case err != nil:
	case readOnly == "on":
		pool.Reset()
		err = errors.New("the server is read-only")
	case !there:
		err = fmt.Errorf("there is no table %s (`bin/migrations up` makes it)", table)
	default:
		return nil
	}
	return fmt.Errorf("database: %w", err)
}

// Await waits until the server at u answers, at most for the time given.
func Await(ctx context.Context, u URL, atMost time.Duration) error {
	_, err := service.Try(ctx, atMost, func(ctx context.Context) (struct{}, error) {
		conn, err := pgx.Connect(ctx, u.raw)
		if err == nil {
			return struct{}{}, conn.Close(ctx)
		}
		if answer, ok := errors.AsType[*pgconn.PgError](err); ok && blameForCode(answer.Code) == Statement {
			err = backoff.Permanent(err) // it answers, and does not want us: waiting does not change that
		}
		return struct{}{}, err
	})
	if err != nil {
		return fmt.Errorf("database %s: %w", u, err)
	}
	return nil
}
