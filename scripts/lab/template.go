package lab

// How does every lab get a migrated database quickly? The migrations run once for each server and set of migrations,
// into a template; a lab's database is a copy of it.

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/jackc/pgx/v5"

	"example.com/outboxlab/migrations/schema"
)

// templateLock is held in the database postgres while the template is made or copied. PostgreSQL refuses to copy a
// database to which somebody is connected, as the migrations are.
const templateLock = 8_170_042_003

// cloneTemplate makes the database name as a copy of the template, making that first if it is missing.
func cloneTemplate(ctx context.Context, ownerURL, name string) error {
	template, err := templateName()
	if err != nil {
		return err
	}
	return inPostgres(ctx, ownerURL, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, int64(templateLock)); err != nil {
			return err
		} // given back when the connection ends
		if err := ensureTemplate(ctx, conn, ownerURL, template); err != nil {
			return fmt.Errorf("template: %w", err)
		}
		_, err := conn.Exec(ctx, fmt.Sprintf(`CREATE DATABASE %s TEMPLATE %s`, quote(name), quote(template)))
		return err
	})
}

// ensureTemplate migrates under another name and renames at the end: a template half made is never copied.
func ensureTemplate(ctx context.Context, conn *pgx.Conn, ownerURL, template string) error {
	var exists bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, template).Scan(&exists); err != nil || exists {
		return err
	}
	unfinished := template + "_unfinished"
	for _, statement := range []string{
		fmt.Sprintf(`DROP DATABASE IF EXISTS %s WITH (FORCE)`, quote(unfinished)),
		fmt.Sprintf(`CREATE DATABASE %s`, quote(unfinished)),
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	at, err := withPath(ownerURL, unfinished)
	if err != nil {
		return err
	}
	if err := schema.Up(ctx, at, rolePasswords(), func(string) {}); err != nil {
		return err
	}
	// ALLOW_CONNECTIONS first, so that nobody can be connected when it is renamed and copied.
	for _, statement := range []string{
		fmt.Sprintf(`ALTER DATABASE %s ALLOW_CONNECTIONS false`, quote(unfinished)),
		fmt.Sprintf(`ALTER DATABASE %s RENAME TO %s`, quote(unfinished), quote(template)),
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// rolePasswords are those that the URLs of the services use, too.
func rolePasswords() schema.Passwords {
	return schema.Passwords{
		"orders_app":  os.Getenv("ORDERS_DB_PASSWORD"),
		"relay_app":   os.Getenv("RELAY_DB_PASSWORD"),
		"loyalty_app": os.Getenv("LOYALTY_DB_PASSWORD"),
	}
}

// templateName carries a hash of all migrations, so that a changed migration makes a new template.
func templateName() (string, error) {
	hash := sha256.New()
	err := fs.WalkDir(schema.FS, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := schema.FS.ReadFile(path)
		fmt.Fprintf(hash, "%s %d\n%s", path, len(text), text)
		return err
	})
	return fmt.Sprintf("lab_template_%x", hash.Sum(nil)[:6]), err
}

func dropDatabase(ctx context.Context, ownerURL, name string) error {
	return inPostgres(ctx, ownerURL, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, fmt.Sprintf(`DROP DATABASE IF EXISTS %s WITH (FORCE)`, quote(name)))
		return err
	})
}

// inPostgres runs do on a connection to the database postgres, which every server has.
func inPostgres(ctx context.Context, ownerURL string, do func(*pgx.Conn) error) (err error) {
	at, err := withPath(ownerURL, "postgres")
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return do(conn)
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }
