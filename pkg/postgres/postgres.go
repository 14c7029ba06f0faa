// Package postgres reaches a service's database, and tells when it cannot be reached and whose fault an error is.
package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/pkg/service"
)

// Options of Open; the zero value is fine.
type Options struct {
	// IdleInTransaction ends a session whose transaction waits for its client longer than this, which frees the
	// rows that a frozen client has locked. 0 = never.
	IdleInTransaction time.Duration
	// NoJIT keeps the server from compiling queries. One that probes an index for every row looks
	// expensive to the planner and is done before the compiler would be.
	NoJIT bool
}

// afterConnect makes the options hold for the session. All that the services do is written for READ COMMITTED, whatever
// default the database or the role has: at a higher level it would meet serialization failures.
func (o Options) afterConnect(ctx context.Context, conn *pgconn.PgConn) error {
	settings := []string{"SET default_transaction_isolation = 'read committed'"}
	if o.IdleInTransaction > 0 {
		settings = append(settings, fmt.Sprintf("SET idle_in_transaction_session_timeout = %d", o.IdleInTransaction.Milliseconds()))
	}
	if o.NoJIT {
		settings = append(settings, "SET jit = off")
	}
	return conn.Exec(ctx, strings.Join(settings, "; ")).Close()
}

const (
	// defaultMaxConns is the size of a pool whose URL does not set pool_max_conns.
	defaultMaxConns = 10
	// connectTimeout bounds one attempt to connect, unless the URL sets connect_timeout.
	connectTimeout = 5 * time.Second
)

// Open makes a pool of connections that carry name in the server's lists. It does not connect: a pool
// outlives its server, so a service starts, and answers that it is not ready, before the database does.
//
// Connections to a server that only reads are refused, so that after a failover the pool finds the
// new primary instead of staying with the old one (jackc/pgx#2207).
func Open(u URL, name string, o Options) (*pgxpool.Pool, error) {
	config, err := parse(u.raw)
	if err != nil {
		return nil, err
	}
	if !u.has("pool_max_conns") {
		config.MaxConns = defaultMaxConns
	}
	prepare(config.ConnConfig, name, o)
	if !u.has("default_query_exec_mode") {
		config.BeforeConnect = withoutPreparedStatements(config.ConnConfig.Copy())
	}
	return pgxpool.NewWithConfig(context.Background(), config)
}

// ConnConfig reads a database URL for single connections, without what is meant for pools. Its error does not quote the URL.
func ConnConfig(databaseURL string) (*pgx.ConnConfig, error) {
	config, err := parse(databaseURL)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.AfterConnect = Options{}.afterConnect
	return config.ConnConfig, nil
}

// prepare completes what the URL says. The settings are made once the connection stands: PgBouncer refuses them in the
// startup packet.
func prepare(config *pgx.ConnConfig, name string, o Options) {
	config.RuntimeParams["application_name"] = name
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	if config.ValidateConnect == nil {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	// Notifications are for those who install a handler. pgx would keep them for ever otherwise.
	config.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}
	config.AfterConnect = o.afterConnect
}

// Await waits until the server at u answers, at most for the time given.
func Await(ctx context.Context, u URL, atMost time.Duration) error {
	config, err := ConnConfig(u.raw)
	if err != nil {
		return err
	}
	_, err = service.Try(ctx, atMost, func(ctx context.Context) (struct{}, error) {
		conn, err := pgx.ConnectConfig(ctx, config)
		if err == nil {
			return struct{}{}, conn.Close(ctx)
		}
		return struct{}{}, markPermanent(err)
	})
	if err != nil {
		return fmt.Errorf("database %s: %w", u, err)
	}
	return nil
}
