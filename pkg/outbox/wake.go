package outbox

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// This file answers: how does the relay learn of a new row within milliseconds? The producer says
// so after its commit. A NOTIFY inside the business transaction would be the obvious way, but
// transactions that notify commit one after the other: it costs a third of the orders per second
// at 32 connections. So one goroutine notifies for all, and what comes while it is at it is one
// notification more, not many. It is a hint: the relay polls for what a lost one missed.

// Channel is the notification channel that relays listen on. Payloads are empty.
const Channel = "outbox"

const (
	// notifyTimeout bounds one notification.
	notifyTimeout = 2 * time.Second
	// notifyPause is the least time between two: under load one tells of many orders, and a lone
	// order waits for none.
	notifyPause = 2 * time.Millisecond
)

// Waker sends notifications. A nil Waker sends none.
type Waker struct {
	pool *pgxpool.Pool
	due  chan struct{} // holds one wake-up that has not been sent
	stop chan struct{}
	once sync.Once
	done chan struct{}
}

// NewWaker starts a Waker that borrows a connection from pool for each notification. Close it before
// the pool.
func NewWaker(pool *pgxpool.Pool) *Waker {
	w := &Waker{pool: pool, due: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return w
}

// Wake tells relays that rows have been committed. It returns at once. Call it after the commit: a
// relay that looks before sees nothing.
func (w *Waker) Wake() {
	if w == nil {
		return
	}
	select {
	case w.due <- struct{}{}:
	default: // one is due already, and will be sent after this commit
	}
}

// Close sends what is due and stops. A Wake that comes later does nothing.
func (w *Waker) Close() {
	if w == nil {
		return
	}
	w.once.Do(func() { close(w.stop) })
	<-w.done
}

func (w *Waker) run() {
	defer close(w.done)
	for {
		select {
		case <-w.due:
			w.notify()
			select { // the pause, which nobody who closes has to wait for
			case <-time.After(notifyPause):
			case <-w.stop:
			}
		case <-w.stop:
			select {
			case <-w.due:
				w.notify()
			default:
			}
			return
		}
	}
}

func (w *Waker) notify() {
	ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
	defer cancel()
	// An error needs no report: the poll finds the row, and who cannot notify cannot place orders.
	_, _ = w.pool.Exec(ctx, `NOTIFY `+Channel)
}
