package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/pkg/service"
)

// This file asks whether a database can be worked with, and tells which answers no waiting changes.

// Need is something that a service must be allowed to do with a table: SELECT, INSERT, UPDATE (of some columns is
// enough) or DELETE.
type Need struct{ Privilege, Table string }

// minServer is the first server with uuidv7(), the default of an event's id.
const minServer = 180000

const askReady = `
SELECT current_setting('transaction_read_only') = 'on', current_setting('server_version_num')::int,
       to_regclass($1) IS NOT NULL,
       (SELECT coalesce(string_agg(need.privilege || ' on ' || need.name, ', '), '')
        FROM unnest($2::text[], $3::text[]) AS need (privilege, name)
        WHERE to_regclass(need.name) IS NOT NULL AND NOT CASE need.privilege
            WHEN 'DELETE' THEN has_table_privilege(need.name, 'DELETE')
            ELSE has_any_column_privilege(need.name, need.privilege) END)`

// Ready asks the server one question: does it answer, can it be written to, has it the table, and may we do
// what is needed? The connections to one that only reads are dropped: the next ones find the new primary. An
// error that no waiting heals is marked by service.Permanent; a missing table is none: migrations may come yet.
func Ready(ctx context.Context, pool *pgxpool.Pool, table string, needs ...Need) error {
	var privileges, tables []string
	for _, n := range needs {
		privileges, tables = append(privileges, n.Privilege), append(tables, n.Table)
	}
	var readOnly, there bool
	var version int
	var missing string
	err := pool.QueryRow(ctx, askReady, table, privileges, tables).Scan(&readOnly, &version, &there, &missing)
	switch {
	case err != nil:
		err = markPermanent(err)
	case readOnly:
		pool.Reset()
		err = errors.New("the server is read-only")
	case version < minServer:
		err = service.Permanent(fmt.Errorf("PostgreSQL %d or newer is needed, this server is %d.%d", minServer/10000, version/10000, version%10000))
	case !there:
		err = fmt.Errorf("there is no table %s (`bin/migrations up` makes it)", table)
	case missing != "":
		err = service.Permanent(errors.New("this account lacks the permission: " + missing))
	default:
		return nil
	}
	return fmt.Errorf("database: %w", err)
}

// markPermanent marks an error of connecting, or of a statement that asks nothing special, if no waiting heals
// it: the server answers, and does not want us.
func markPermanent(err error) error {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok && blameForCode(answer.Code) == Statement {
		return service.Permanent(err)
	}
	if err != nil && strings.Contains(err.Error(), "server refused TLS connection") { // it has no type of its own
		return service.Permanent(err)
	}
	return err
}
