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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
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
// gets one line per migration applied.
func Up(ctx context.Context, databaseURL string, passwords Passwords, log func(string), names ...string) error {
	if err := createRoles(ctx, databaseURL, passwords); err != nil {
		return fmt.Errorf("create roles: %w", err)
	}
	return eachSchema(ctx, databaseURL, names, func(name string, p *goose.Provider) error {
		results, err := p.Up(ctx)
		for _, r := range results {
			log(fmt.Sprintf("%s: applied %s", name, r.Source.Path))
		}
		return err
	})
}

// Down takes the named schemas (all when none is named) back to nothing. Roles stay: they belong
// to the cluster, and other databases may use them.
func Down(ctx context.Context, databaseURL string, log func(string), names ...string) error {
	return eachSchema(ctx, databaseURL, names, func(name string, p *goose.Provider) error {
		results, err := p.DownTo(ctx, 0)
		for _, r := range results {
			log(fmt.Sprintf("%s: removed %s", name, r.Source.Path))
		}
		return err
	})
}

// Status tells, one line per migration, whether it has been applied to the database and when.
func Status(ctx context.Context, databaseURL string, log func(string), names ...string) error {
	return eachSchema(ctx, databaseURL, names, func(name string, p *goose.Provider) error {
		all, err := p.Status(ctx)
		for _, s := range all {
			when := "pending"
			if s.State == goose.StateApplied {
				when = "applied " + s.AppliedAt.Format("2006-01-02 15:04:05")
			}
			log(fmt.Sprintf("%s: %s: %s", name, s.Source.Path, when))
		}
		return err
	})
}

// eachSchema runs do for every named schema while it holds the database's migration lock.
func eachSchema(ctx context.Context, databaseURL string, names []string, do func(string, *goose.Provider) error) (err error) {
	if len(names) == 0 {
		names = Names
	}
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return err
	}
	db := stdlib.OpenDB(*config)
	defer func() { err = errors.Join(err, db.Close()) }()
	unlock, err := lock(ctx, db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	for _, name := range names {
		p, err := provider(ctx, db, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := do(name, p); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// lock checks the server's version and takes the migration lock. The lock belongs to a session
// kept out of the pool until unlock: it goes when that session ends, also by kill -9.
func lock(ctx context.Context, db *sql.DB) (unlock func() error, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var version int
	if err := conn.QueryRowContext(ctx, `SELECT current_setting('server_version_num')::int`).Scan(&version); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if version < minServerVersion {
		return nil, errors.Join(fmt.Errorf("PostgreSQL 18 or newer is needed (for uuidv7), this server is %d.%d",
			version/10000, version%10000), conn.Close())
	}
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, int64(migrateLock)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn.Close, nil
}

// provider opens goose on one schema. The version table lives in that schema, which therefore
// has to exist first.
func provider(ctx context.Context, db *sql.DB, name string) (*goose.Provider, error) {
	files, err := fs.Sub(FS, name)
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, `CREATE SCHEMA IF NOT EXISTS `+pgx.Identifier{name}.Sanitize()); err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithTableName(name+".goose_db_version"), goose.WithDisableGlobalRegistry(true))
}
