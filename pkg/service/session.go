package service

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// This file runs session after session. A broken connection is never repaired: the session that it
// belonged to ends as a whole, and a new one is opened from the start.

// Session is one life of a connection and what hangs on it. It tells its Life when it is ready and when
// it has worked. It returns when something broke, or nil when ctx ended and its work is in order.
type Session func(ctx context.Context, life *Life) error

const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 5 * time.Second
	// stableAfter is how long a session must be ready before it counts as one that works, although there was
	// nothing to do. It is not shorter than maxDelay, or sessions that break at once would follow each other faster.
	stableAfter = maxDelay
	// tellAgain is how often the same trouble is told while it lasts.
	tellAgain = time.Minute
)

// Keeper keeps a session alive. Its zero value but for Log and What is ready for use.
type Keeper struct {
	Log  *slog.Logger
	What string // the sessions' work, as a log line begins: "consuming"
	// Optional means that the process does without these sessions: no error ends it, and each reason is told once.
	Optional bool

	mu       sync.Mutex
	delays   *backoff.ExponentialBackOff
	costly   int                  // costly sessions since work was done
	worked   bool                 // some session has been ready
	unwell   bool                 // it was told that the sessions do not work
	lastTold map[string]time.Time // by reason
}

// KeepUp is the Run of a new Keeper.
func KeepUp(ctx context.Context, log *slog.Logger, what string, session Session) error {
	return (&Keeper{Log: log, What: what}).Run(ctx, session)
}

// Run runs session after session until ctx ends. It waits between them for a time that grows from 100 ms to
// 5 s with jitter, longer after costly errors. The pauses start over when a session has worked, or was ready for 5 s:
// a session that breaks as soon as it is ready changes nothing. What is wrong is told when it begins, again
// each minute while it lasts, and once when it is over.
//
// A permanent error is returned if no session has been ready before. Later it is waited out like any other:
// a process that works does not end because somebody changes the server.
func (k *Keeper) Run(ctx context.Context, session Session) error {
	k.begin()
	for ctx.Err() == nil {
		life := &Life{keeper: k}
		err := session(ctx, life)
		life.end()
		if err == nil || ctx.Err() != nil {
			continue
		}
		if IsPermanent(err) && k.mayFail() {
			return fmt.Errorf("%s: %w", k.What, err)
		}
		delay := k.delay(err)
		k.tell(ctx, err, delay)
		Wait(ctx, delay)
	}
	return nil
}

func (k *Keeper) begin() {
	if k.delays == nil {
		k.delays = backoff.NewExponentialBackOff()
		k.delays.InitialInterval, k.delays.MaxInterval = firstDelay, maxDelay
		k.delays.Reset()
		k.lastTold = map[string]time.Time{}
	}
}

func (k *Keeper) mayFail() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.worked && !k.Optional
}

func (k *Keeper) delay(err error) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	delay := k.delays.NextBackOff()
	if isCostly(err) {
		k.costly++
		delay = max(delay, costlyDelay(k.costly))
	}
	return delay
}

// tell logs why a session ended: as a warning, or for debug level if that was told less than a minute ago.
func (k *Keeper) tell(ctx context.Context, err error, delay time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.Optional {
		maps.DeleteFunc(k.lastTold, func(_ string, at time.Time) bool { return time.Since(at) >= tellAgain })
	}
	reason := numbers.ReplaceAllString(err.Error(), "#")
	level := slog.LevelDebug
	if _, told := k.lastTold[reason]; !told {
		level, k.unwell, k.lastTold[reason] = slog.LevelWarn, true, time.Now()
	}
	again := "trying again"
	if delay >= firstCostlyDelay {
		again += " in " + delay.Round(time.Second).String()
	}
	k.Log.Log(ctx, level, fmt.Sprintf("%s: %v; %s", k.What, err, again), "what", k.What, "err", err, "delay", delay)
}

// numbers differ from one try to the next, as the port of a connection does, and are no news.
var numbers = regexp.MustCompile(`[0-9]+`)

// Life is how a session tells its Keeper how far it has come.
type Life struct {
	keeper *Keeper
	stable *time.Timer // nil until it is ready
	ended  bool
}

// Ready tells that everything is in place and that the session waits for work, or has begun it.
func (l *Life) Ready() {
	k := l.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	k.worked = true
	if l.stable == nil {
		l.stable = time.AfterFunc(stableAfter, l.lasted)
	}
}

// Worked tells that work has been done and that the other side has taken it: messages settled, events confirmed.
func (l *Life) Worked() {
	l.Ready()
	k := l.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	k.costly = 0
	k.well()
}

// lasted is called when the session has been ready for a while. Only then is trouble news if it comes back: a
// session that works for a moment, again and again, would fill the log.
func (l *Life) lasted() {
	k := l.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if !l.ended {
		clear(k.lastTold)
		k.well()
	}
}

func (l *Life) end() {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	l.ended = true
	if l.stable != nil {
		l.stable.Stop()
	}
}

// well is called with the lock held.
func (k *Keeper) well() {
	k.delays.Reset()
	if k.unwell {
		k.Log.Info(k.What+" works again", "what", k.What)
	}
	k.unwell = false
}

// Wait returns after d, or at once when ctx ends.
func Wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Try opens something for a command that runs once: again and again with growing pauses, until it opens, the
// time is up, or the error is a permanent one. The error is the last one met.
func Try[T any](ctx context.Context, atMost time.Duration, open func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	var last error
	opened, err := backoff.Retry(ctx, func() (T, error) {
		t, err := open(ctx)
		if err != nil && (last == nil || ctx.Err() == nil) {
			last = err // when the deadline cuts a try short, what the try before it met says more
		}
		if IsPermanent(err) {
			err = backoff.Permanent(err)
		}
		return t, err
	}, backoff.WithMaxElapsedTime(0))
	switch {
	case err == nil || last == nil:
		return opened, err
	case IsPermanent(last):
		return opened, last
	default:
		return opened, fmt.Errorf("%w (tried for %v)", last, atMost)
	}
}
