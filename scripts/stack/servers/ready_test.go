package servers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestAtLeastComparesNumbers(t *testing.T) {
	for version, want := range map[string]bool{
		"4.3.3": true, "4.3.10": true, "4.4.0": true, "5.0": true, "4.3.3+2": true,
		"4.3.2": false, "4.2.9": false, "3.13.7": false, "4.3": false, "": false,
	} {
		if got := atLeast(version, minRabbitMQ); got != want {
			t.Errorf("%q at least %s: %v, want %v", version, minRabbitMQ, got, want)
		}
	}
}

// An error that waiting does not heal ends the waiting at once.
func TestWhatCannotHealIsNotAwaited(t *testing.T) {
	for _, err := range []error{tooOldError{"17"}, &pgconn.PgError{Code: "28P01"}, &pgconn.PgError{Code: "3D000"}, unusable(t)} {
		asked := 0
		got := await(t.Context(), func() bool { return true }, func(context.Context) error {
			if asked++; asked == 1 {
				return &pgconn.PgError{Code: "57P03"} // starting up
			}
			return fmt.Errorf("PostgreSQL: %w", err)
		})
		if asked != 2 || !errors.Is(got, err) {
			t.Errorf("%v: asked %d times, %v", err, asked, got)
		}
	}
}

func unusable(t *testing.T) error {
	t.Helper()
	_, err := pgconn.ParseConfig("postgres://127.0.0.1/x?service=nosuch")
	if err == nil {
		t.Fatal("a service that is nowhere was found")
	}
	return err
}

// Known causes get advice; other errors stay as they are.
func TestExplain(t *testing.T) {
	for text, want := range map[string]string{
		"E: write failed (28: No space left on device)":                     "the disk is full",
		"E: Failed to fetch http://mirror/x Could not resolve 'mirror'":     "apt-get update",
		"NO_PUBKEY 0E98404D386FA1D9":                                        "debian-archive-keyring",
		"Bind for 127.0.0.1:55432 failed: port is already allocated":        "POSTGRES_PORT",
		"could not bind IPv4 address \"127.0.0.1\": Address already in use": "POSTGRES_PORT",
		"something else": "",
	} {
		got := explain(errors.New(text), "/somewhere").Error()
		if !strings.Contains(got, want) || !strings.Contains(got, text) {
			t.Errorf("%q is explained as %q; want %q and the text itself in it", text, got, want)
		}
	}
}
