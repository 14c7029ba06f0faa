package schema

// This file answers: who may log in? Three roles, one per service, with the rights that the
// migrations grant them and no others. Roles belong to the whole PostgreSQL cluster, so they are
// made outside goose, whose bookkeeping is per database.

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Passwords of the services' roles, by role name. A role without an entry gets its own name as
// password when it is created: a default for development, where servers listen on loopback only.
// An entry is also set on a role that exists already.
type Passwords map[string]string

// Roles lists the services' roles.
var Roles = []string{"orders_app", "relay_app", "loyalty_app"}

// rolesLock keeps apart all migrations of one cluster, whichever database they migrate. Without
// it CREATE ROLE fails with "already exists", or ALTER ROLE with "tuple concurrently updated".
const rolesLock = 8_170_042_002

// createRoles makes the roles that do not exist yet. It connects to the postgres database of the
// same server: an advisory lock is per database, and this one must be common to all of them.
func createRoles(ctx context.Context, databaseURL string, passwords Passwords) (err error) {
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return err
	}
	config.Database = "postgres"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(rolesLock)); err != nil {
			return err
		}
		for _, role := range Roles {
			if err := createRole(ctx, tx, role, passwords[role]); err != nil {
				return fmt.Errorf("%s: %w", role, err)
			}
		}
		return nil
	})
}

func createRole(ctx context.Context, tx pgx.Tx, role, password string) error {
	var exists bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)`, role).Scan(&exists); err != nil {
		return err
	}
	if exists && password == "" {
		return nil
	}
	verb := "CREATE"
	if exists {
		verb = "ALTER"
	}
	if password == "" {
		password = role
	}
	// Utility statements take no parameters; the server quotes the literal itself.
	var statement string
	const build = `SELECT format('%s ROLE %I LOGIN PASSWORD %L', $1::text, $2::text, $3::text)`
	if err := tx.QueryRow(ctx, build, verb, role, password).Scan(&statement); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, statement)
	return err
}
