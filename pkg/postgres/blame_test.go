package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestBlame(t *testing.T) {
	for code, want := range map[string]Blame{
		"08006": Server, "53100": Server, "53300": Server, "53400": Server, "57P01": Server, "57P03": Server, "58030": Server, "25006": Server,
		"53200": Unclear, "57014": Unclear, "40001": Unclear, "40P01": Unclear, "55P03": Unclear, "25P04": Unclear, "XX000": Unclear,
		"42P01": Statement, "42501": Statement, "23505": Statement, "22003": Statement, "40002": Statement, "25P02": Statement, "P0001": Statement, "": Statement,
	} {
		err := fmt.Errorf("ledger: %w", &pgconn.PgError{Code: code})
		if got := BlameFor(err); got != want {
			t.Errorf("BlameFor(SQLSTATE %q) = %v, want %v", code, got, want)
		}
	}
	for _, err := range []error{io.ErrUnexpectedEOF, context.DeadlineExceeded, &pgconn.ConnectError{}} {
		if BlameFor(err) != Server {
			t.Errorf("BlameFor(%v) is not Server", err)
		}
	}
	if BlameFor(nil) != Statement || BlameFor(errors.New("other")) != Statement {
		t.Error("an error that does not come from the database is blamed on it")
	}
}

func TestCertainlyNotDone(t *testing.T) {
	for code, want := range map[string]bool{"40001": true, "40P01": true, "0A000": true, "57P01": false, "23505": false} {
		if got := CertainlyNotDone(&pgconn.PgError{Code: code}); got != want {
			t.Errorf("CertainlyNotDone(SQLSTATE %s) = %v", code, got)
		}
	}
	if CertainlyNotDone(io.ErrUnexpectedEOF) {
		t.Error("a connection that broke during COMMIT leaves the outcome open")
	}
}
