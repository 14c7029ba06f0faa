package service

import (
	"crypto/tls"
	"errors"
	"time"
)

// This file names two kinds of errors that a session can end with and that are not waited out as an outage is.

// permanentError is an error that no waiting heals.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Permanent marks err as one that no waiting heals: a wrong password, a missing permission, a queue
// declared otherwise. Somebody has to change something. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

// IsPermanent tells whether err is marked by Permanent, or is a TLS handshake that will end like that each
// time: a certificate that is not trusted, or a server that does not speak TLS.
func IsPermanent(err error) bool {
	if _, ok := errors.AsType[permanentError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	_, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok
}

// costlyError is the error of a session whose end has cost something.
type costlyError struct{ error }

func (e costlyError) Unwrap() error { return e.error }

// Costly marks the error of a session that must not be repeated often, because each one costs something:
// a failed delivery of a message, or an error in the server's log. KeepUp then waits for costlyDelay.
// Costly(nil) is nil.
func Costly(err error) error {
	if err == nil {
		return nil
	}
	return costlyError{err}
}

func isCostly(err error) bool {
	_, ok := errors.AsType[costlyError](err)
	return ok
}

const (
	firstCostlyDelay = 2 * time.Second
	maxCostlyDelay   = time.Minute
)

// costlyDelay is the pause after the nth costly session in a row: 2, 4, 8, 16, 32 s, then a minute. It has no
// jitter, so that what such sessions cost at most can be stated (docs/guarantees.md).
func costlyDelay(n int) time.Duration {
	if n > 5 { // 64 s and more
		return maxCostlyDelay
	}
	return firstCostlyDelay << (n - 1)
}
