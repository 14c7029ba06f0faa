package schema

// This file answers: who may log in? Three roles, one per service, with the rights that the
// migrations grant them and no others. Roles belong to the whole PostgreSQL cluster, so they are
// made outside goose, whose bookkeeping is per database.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"example.com/outboxlab/pkg/postgres"
)

// Passwords of the services' roles, by role name. A role without an entry gets its own name as
// password when it is created: a default for development, where servers listen on loopback only.
// An entry is also set on a role that exists already.
type Passwords map[string]string

// rolesOf lists the roles that a schema's migrations grant to.
var rolesOf = map[string][]string{"orders": {"orders_app", "relay_app"}, "loyalty": {"loyalty_app"}}

// rolesLock keeps apart all migrations of one cluster, whichever database they migrate. Without
// it CREATE ROLE fails with "already exists", or ALTER ROLE with "tuple concurrently updated".
const rolesLock = 8_170_042_002

// createRoles makes the roles of the schemas that do not exist yet, and sets the passwords that are given.
func createRoles(ctx context.Context, databaseURL string, passwords Passwords, schemas []string) error {
	config, err := postgres.ConnConfig(databaseURL)
	if err != nil {
		return err
	}
	todo, err := rolesToMake(ctx, config, passwords, schemas)
	if err != nil || len(todo) == 0 {
		return err
	}
	return underRolesLock(ctx, config, strings.Join(todo, ", "), func(tx pgx.Tx) error {
		for _, role := range todo {
			if err := createRole(ctx, tx, role, passwords[role]); err != nil {
				return fmt.Errorf("%s: %w", role, explain(err, config.User, role))
			}
		}
		return nil
	})
}

// rolesToMake are those that are missing or get a password. An owner with neither the right to make roles nor to connect to
// another database can migrate when there are none.
func rolesToMake(ctx context.Context, config *pgx.ConnConfig, passwords Passwords, schemas []string) (todo []string, err error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	rows, _ := conn.Query(ctx, `SELECT rolname FROM pg_roles`) // its error comes out of CollectRows
	existing, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	for _, name := range schemas {
		for _, role := range rolesOf[name] {
			if !slices.Contains(existing, role) || passwords[role] != "" {
				todo = append(todo, role)
			}
		}
	}
	return todo, nil
}

// underRolesLock runs do in a transaction that holds the lock. It connects to the postgres database of the same
// server: an advisory lock is per database, and this one must be common to all of them.
func underRolesLock(ctx context.Context, config *pgx.ConnConfig, roles string, do func(pgx.Tx) error) (err error) {
	config = config.Copy()
	config.Database = "postgres"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("%s: made under a lock in the database postgres, to which %s must be able to connect (GRANT CONNECT ON DATABASE postgres TO %s), "+
			"or by an administrator beforehand: %w", roles, config.User, pgx.Identifier{config.User}.Sanitize(), err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(rolesLock)); err != nil {
			return err
		}
		return do(tx)
	})
}

// explain adds what to do where a privilege is missing.
func explain(err error, user, role string) error {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok && answer.Code == "42501" { // insufficient_privilege
		return fmt.Errorf("%w (%s needs CREATEROLE, and ADMIN OPTION on a role that exists; or an administrator makes %s beforehand, "+
			"and no password is given here)", err, user, role)
	}
	return err
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
