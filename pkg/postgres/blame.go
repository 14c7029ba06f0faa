package postgres

import (
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// This file says whose fault a database error is: that decides whether the work that met it is
// tried again for ever, a bounded number of times, or counted as failed.

// Blame is whose fault a database error is.
type Blame int

const (
	// Statement: the same statement would fail again. It counts against the message or the row.
	Statement Blame = iota
	// Server: the server cannot work now, whatever it is asked. Nothing counts; wait until it can.
	Server
	// Unclear: mostly the server's trouble, but one statement can be the cause (a statement timeout
	// that only one message meets). Nothing counts at first; the caller sets an upper bound.
	Unclear
)

// blames is the one table of SQLSTATEs that are not the statement's own fault. A code of five
// characters goes before its class, the first two. Source: PostgreSQL 18, appendix A.
var blames = map[string]Blame{
	"08":    Server,    // connection exceptions
	"53":    Server,    // insufficient resources: disk full, too many connections
	"53200": Unclear,   // out of memory: one large statement can be the cause
	"57":    Server,    // operator intervention: shutdown, crash, starting up, database dropped
	"57014": Unclear,   // query cancelled: by an operator, or by statement_timeout
	"58":    Server,    // system error: input/output error
	"58P01": Unclear,   // undefined file, e.g. the library of one function
	"25006": Server,    // read-only: a standby, or a primary no more
	"25P03": Unclear,   // idle_in_transaction_session_timeout ended the session
	"25P04": Unclear,   // transaction_timeout ended the session
	"40":    Unclear,   // transaction rollback: serialization failure, deadlock
	"40002": Statement, // a constraint failed at the end of the transaction
	"55P03": Unclear,   // lock not available: lock_timeout, NOWAIT
	"55006": Unclear,   // object in use
	"F0":    Server,    // configuration file error
	"XX":    Unclear,   // internal error, damaged data: perhaps in what one statement reads
}

// BlameFor returns whose fault err is. An error that is not an answer of the server (no connection,
// a broken one, no answer in time) is the server's. After a COMMIT that failed so nobody knows the
// outcome; doing the work again is then safe because the inbox remembers. nil is Statement.
func BlameFor(err error) Blame {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return Server // no server, none that may write, or none that lets us in
	}
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return blameForCode(answer.Code)
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return Server
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		pgconn.Timeout(err) || pgconn.SafeToRetry(err) {
		return Server
	}
	return Statement
}

func blameForCode(code string) Blame {
	if b, ok := blames[code]; ok {
		return b
	}
	if len(code) == 5 {
		return blames[code[:2]] // Statement unless the class is listed
	}
	return Statement
}

// Unreachable tells whether err means that the database cannot work now, as opposed to: it answered
// this statement, and the answer was no.
func Unreachable(err error) bool { return BlameFor(err) == Server }

// notDone are errors after which the transaction has certainly not happened, and the same
// transaction may well succeed at once.
var notDone = map[string]bool{
	"40001": true, // serialization failure
	"40P01": true, // deadlock
	"55P03": true, // lock not available
}

// stalePlan are the errors of a statement that was prepared before something changed. The client library prepares it anew.
var stalePlan = map[string]bool{
	"0A000": true, // "cached plan must not change result type": after ALTER TABLE, once for each connection
	"26000": true, // the prepared statement is gone: DISCARD ALL, or a pooler's other connection
	"42P05": true, // it exists already: DEALLOCATE ALL by a pooler, or its other connection
	"42804": true, // a parameter has the type that the column had before
}

// CertainlyNotDone tells whether err means that the transaction has not happened and is worth trying
// again at once. It is false for an error of COMMIT whose outcome is unknown.
func CertainlyNotDone(err error) bool {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return notDone[answer.Code] || stalePlan[answer.Code]
	}
	return pgconn.SafeToRetry(err)
}

// staleConnection tells whether err comes from a connection, opened before, that is of no use any more: the server ended
// it, or it broke, or its prepared statements are out of date. Others of a pool are probably no better.
func staleConnection(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok || pgconn.Timeout(err) {
		return false
	}
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return stalePlan[answer.Code] || strings.HasPrefix(answer.Code, "57P") || strings.HasPrefix(answer.Code, "08")
	}
	return BlameFor(err) == Server
}
