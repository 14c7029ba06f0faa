package service

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// This file answers: what happens when a connection breaks? It is never repaired: the session
// that it belonged to ends as a whole, and a new one is opened from the start.

// Session is one life of a connection and what hangs on it. It calls up once everything works and
// returns when something broke, or nil when ctx ended and it has put its work in order.
type Session func(ctx context.Context, up func()) error

const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 5 * time.Second
)

// KeepUp runs session after session until ctx ends, waiting between them for a time that grows
// from 100 ms to 5 s with jitter and starts over once a session was up. It says so once when the
// sessions stop working, again when the reason changes, and once when they work again; what repeats is
// for debug level.
func KeepUp(ctx context.Context, log *slog.Logger, what string, session Session) {
	delays := backoff.NewExponentialBackOff()
	delays.InitialInterval, delays.MaxInterval = firstDelay, maxDelay

	var lastTold string
	up := func() {
		delays.Reset()
		if lastTold != "" {
			log.Info(what+" works again", "what", what)
		}
		lastTold = ""
	}
	for ctx.Err() == nil {
		err := session(ctx, up)
		if err == nil || ctx.Err() != nil {
			continue
		}
		delay := delays.NextBackOff()
		level := slog.LevelDebug
		if reason := numbers.ReplaceAllString(err.Error(), "#"); reason != lastTold {
			level, lastTold = slog.LevelWarn, reason
		}
		log.Log(ctx, level, fmt.Sprintf("%s: %v; trying again", what, err), "what", what, "err", err, "delay", delay)
		Wait(ctx, delay)
	}
}

// numbers differ from one try to the next, as the port of a connection does, and are no news.
var numbers = regexp.MustCompile(`[0-9]+`)

// Wait returns after d, or at once when ctx ends.
func Wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Try opens something for a command that runs once: again and again with growing pauses, until it
// opens or the time is up. The error is the last one met.
func Try[T any](ctx context.Context, atMost time.Duration, open func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	var last error
	opened, err := backoff.Retry(ctx, func() (T, error) {
		t, err := open(ctx)
		if err != nil && (last == nil || ctx.Err() == nil) {
			last = err // when the deadline cuts a try short, what the try before it met says more
		}
		return t, err
	}, backoff.WithMaxElapsedTime(0))
	if err != nil && last != nil {
		return opened, last
	}
	return opened, err
}
