package servers

// How does the native PostgreSQL start: the first time, and again on the data it has?

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"
)

const (
	postgresHome = "/var/lib/postgresql"        // where its directory appears inside the root
	postgresBin  = "/usr/lib/postgresql/18/bin" // where Debian puts version 18
)

// postgresSettings are read from a file and not from the command line, which would win over ALTER SYSTEM. fsync stays
// on: the lessons are about what survives. A closed Unix socket leaves password authentication as the only way in.
const postgresSettings = `listen_addresses = '127.0.0.1'
port = %d
unix_socket_directories = ''
max_connections = 300
fsync = on
log_line_prefix = '%%m [%%p] %%d '
`

func (n *native) postgres(command ...string) inRoot {
	return inRoot{root: n.root, data: n.postgresDir(), mountpoint: postgresHome, user: "postgres", dieWithUs: n.private, command: command}
}

func (n *native) postgresDir() string { return filepath.Join(n.dir, "postgres") }

func (n *native) startPostgres(ctx context.Context) error {
	data := filepath.Join(n.postgresDir(), "data")
	if _, err := os.Stat(data); errors.Is(err, fs.ErrNotExist) {
		if err := n.initPostgres(ctx, data); err != nil {
			return err
		}
	}
	settings := fmt.Sprintf(postgresSettings, n.ports.Postgres)
	if err := writeForServer(filepath.Join(data, "outboxlab.conf"), settings); err != nil {
		return err
	}
	// The process number in a killed server's lock file means nothing in the new process namespace, where it may be
	// somebody else's. That no server of ours runs on this data is known from the record.
	if err := os.Remove(filepath.Join(data, "postmaster.pid")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	log := filepath.Join(n.dir, "postgres.log")
	server := n.postgres(postgresBin+"/postgres", "-D", postgresHome+"/data")
	if err := n.launch(server, log, &n.pgProcess); err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	if err := createDatabase(ctx, n.urls().Database, n.pgProcess.alive); err != nil {
		return n.startFailed(n.pgProcess, err, log)
	}
	return nil
}

// initPostgres makes the data directory under another name first, so that one left half-made is never taken for data.
func (n *native) initPostgres(ctx context.Context, data string) error {
	program := n.postgres(postgresBin+"/initdb", "-D", postgresHome+"/data.new", "--username="+user,
		"--pwfile="+postgresHome+"/password", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")
	if err := program.makeData(); err != nil {
		return err
	}
	if err := os.RemoveAll(data + ".new"); err != nil {
		return err
	}
	passwordFile := filepath.Join(n.postgresDir(), "password")
	if err := writeForServer(passwordFile, password); err != nil {
		return err
	}
	defer os.Remove(passwordFile)
	if _, err := program.run(ctx); err != nil {
		return explain(err, n.dir)
	}

	conf, err := os.OpenFile(filepath.Join(data+".new", "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = conf.WriteString("include 'outboxlab.conf'\n")
	if err := errors.Join(err, conf.Close()); err != nil {
		return err
	}
	return os.Rename(data+".new", data)
}

// createDatabase waits for the server, which at first has only the database postgres, and adds ours.
func createDatabase(ctx context.Context, databaseURL string, alive func() bool) error {
	first, err := url.Parse(databaseURL)
	if err != nil {
		return err
	}
	first.Path = "/postgres"
	if err := awaitPostgres(ctx, first.String(), alive); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, first.String())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var exists bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, database).Scan(&exists); err != nil || exists {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+database)
	return err
}
