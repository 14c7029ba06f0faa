// Package schema answers: what tables, roles and rights does the lab need, and how do they get
// into a database? Each schema has one folder of goose migrations and one owner: orders is the
// orders service's, loyalty the loyalty service's. They share a database by default and can be
// split, since no statement of one names the other.
//
// Several programs may migrate at once. Two locks keep them apart: roles belong to the whole
// cluster, so they are made under an advisory lock of the postgres database (roles.go); schemas
// belong to one database, so they are migrated under a lock of that database. goose's own lock
// would come too late: its first look at the version table is outside it.
package schema

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"example.com/outboxlab/pkg/postgres"
)

// FS holds every migration: orders/*.sql and loyalty/*.sql.
//
//go:embed orders/*.sql loyalty/*.sql
var FS embed.FS

// Names lists the schemas, in the order in which they are migrated.
var Names = []string{"orders", "loyalty"}

// minServerVersion is PostgreSQL 18: event_id defaults to uuidv7(), which 17 does not have.
const minServerVersion = 180000

// migrateLock keeps two migrations of one database apart. The number only has to differ from
// other advisory locks of the same database.
const migrateLock = 8_170_042_001

// Up brings the named schemas (all when none is named) of the database to the newest version,
// after making the roles they grant to. It is safe to call from several processes at once; log
// gets one line per migration applied. With nothing to be made it needs no right to make anything.
func Up(ctx context.Context, databaseURL string, passwords Passwords, log func(string), names ...string) error {
	if err := createRoles(ctx, databaseURL, passwords, schemas(names)); err != nil {
		return fmt.Errorf("create roles: %w", err)
	}
	return eachSchema(ctx, databaseURL, names, func(db *sql.DB, name string, _ state) error {
		p, err := provider(ctx, db, name)
		if err != nil {
			return err
		}
		results, err := p.Up(ctx)
		for _, r := range results {
			log(fmt.Sprintf("%s: applied %s", name, r.Source.Path))
		}
		if err != nil {
			return err
		}
		return grantAgain(ctx, db, name, log)
	})
}

// Down takes the named schemas (all when none is named) back to nothing. Roles stay: they belong
// to the cluster, and other databases may use them.
func Down(ctx context.Context, databaseURL string, log func(string), names ...string) error {
	return eachSchema(ctx, databaseURL, names, func(db *sql.DB, name string, s state) error {
		if !s.recorded {
			log(name + ": nothing to remove")
			return nil
		}
		p, err := provider(ctx, db, name)
		if err != nil {
			return err
		}
		results, err := p.DownTo(ctx, 0)
		for _, r := range results {
			log(fmt.Sprintf("%s: removed %s", name, r.Source.Path))
		}
		return err
	})
}

// Status tells, one line per migration, whether it has been applied to the database and when; also
// of those that only a newer program knows. It changes nothing, so a server that only reads will do.
func Status(ctx context.Context, databaseURL string, log func(string), names ...string) (err error) {
	db, err := open(databaseURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, name := range schemas(names) {
		s, err := readState(ctx, db, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, line := range s.lines() {
			log(name + ": " + line)
		}
	}
	return nil
}

// schemas are those named, or all.
func schemas(names []string) []string {
	if len(names) == 0 {
		return Names
	}
	return names
}

func open(databaseURL string) (*sql.DB, error) {
	config, err := postgres.ConnConfig(databaseURL)
	if err != nil {
		return nil, err
	}
	return stdlib.OpenDB(*config), nil
}

// eachSchema runs do for every named schema while it holds the database's migration lock. Before the
// first one it makes sure that all of them can be migrated by this program.
func eachSchema(ctx context.Context, databaseURL string, names []string, do func(*sql.DB, string, state) error) (err error) {
	db, err := open(databaseURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	unlock, err := lock(ctx, db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	states := map[string]state{}
	for _, name := range schemas(names) {
		if states[name], err = readState(ctx, db, name); err == nil {
			err = states[name].check(name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, name := range schemas(names) {
		if err := do(db, name, states[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// lock checks that the server is new enough and can be written to, and takes the migration lock. The lock belongs to a
// session kept out of the pool until unlock: it goes when that session ends, also by kill -9.
func lock(ctx context.Context, db *sql.DB) (unlock func() error, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var version int
	var readOnly string
	const ask = `SELECT current_setting('server_version_num')::int, current_setting('transaction_read_only')`
	if err := conn.QueryRowContext(ctx, ask).Scan(&version, &readOnly); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if version < minServerVersion {
		return nil, errors.Join(fmt.Errorf("PostgreSQL 18 or newer is needed (for uuidv7), this server is %d.%d",
			version/10000, version%10000), conn.Close())
	}
	if readOnly == "on" {
		return nil, errors.Join(errors.New("the server takes no writes (a standby, or default_transaction_read_only is on)"), conn.Close())
	}
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, int64(migrateLock)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn.Close, nil
}

// provider opens goose on one schema. The version table lives in that schema, which therefore
// has to exist first. That it does is asked beforehand: CREATE SCHEMA IF NOT EXISTS needs the right to
// create one also where there is nothing to create.
func provider(ctx context.Context, db *sql.DB, name string) (*goose.Provider, error) {
	files, err := fs.Sub(FS, name)
	if err != nil {
		return nil, err
	}
	var exists bool
	if err := db.QueryRowContext(ctx, `SELECT to_regnamespace($1) IS NOT NULL`, name).Scan(&exists); err != nil {
		return nil, err
	}
	if !exists {
		if _, err := db.ExecContext(ctx, `CREATE SCHEMA `+pgx.Identifier{name}.Sanitize()); err != nil {
			return nil, err
		}
	}
	return goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithTableName(versionTable(name)), goose.WithDisableGlobalRegistry(true))
}

// eachMigration gives do the file name and the Up part of each of the schema's migrations, oldest first.
func eachMigration(name string, do func(file, up string) error) error {
	entries, err := FS.ReadDir(name)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		text, err := FS.ReadFile(name + "/" + entry.Name())
		if err != nil {
			return err
		}
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		if err := do(entry.Name(), up); err != nil {
			return err
		}
	}
	return nil
}

func versionTable(name string) string { return name + ".goose_db_version" }
