package schema

// What if a role has lost what the migrations granted: it was dropped and made again, or the database was restored without
// privileges? The migrations are applied, so goose does nothing, and the service may not even enter its schema.

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
)

// grantStatement is a GRANT or REVOKE at the beginning of a line, up to its semicolon.
var grantStatement = regexp.MustCompile(`(?m)^(?:GRANT|REVOKE)\s[^;]+;`)

// grantAgain repeats the grants of the schema's migrations, in their order, if a role that they speak of has no access to
// the schema.
func grantAgain(ctx context.Context, db *sql.DB, name string, log func(string)) error {
	var shutOut []string
	for _, role := range rolesOf[name] {
		var may bool
		if err := db.QueryRowContext(ctx, `SELECT has_schema_privilege($1, $2, 'USAGE')`, role, name).Scan(&may); err != nil {
			return err
		}
		if !may {
			shutOut = append(shutOut, role)
		}
	}
	if len(shutOut) == 0 {
		return nil
	}
	statements, err := grants(name)
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, strings.Join(statements, "\n")); err != nil { // several statements in one are one transaction
		return fmt.Errorf("%s may not use the schema, and cannot be let in: %w", strings.Join(shutOut, ", "), err)
	}
	log(fmt.Sprintf("%s: granted again to %s what the migrations grant", name, strings.Join(shutOut, ", ")))
	return nil
}

// grants are those in the Up parts of the schema's migrations, oldest first.
func grants(name string) (statements []string, err error) {
	err = eachMigration(name, func(_, up string) error {
		statements = append(statements, grantStatement.FindAllString(up, -1)...)
		return nil
	})
	return statements, err
}
