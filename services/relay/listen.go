package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/outboxlab/pkg/outbox"
	"example.com/outboxlab/pkg/service"
)

// This file answers: how does the relay hear within milliseconds that there is something to do? By
// LISTEN, on a connection of its own. A notification is a hint and nothing more: it is lost while
// nobody listens, so the relay looks once after every connect, and polls besides.

// aliveEvery is how often a silent connection is asked whether it still works: one that died without
// a word would otherwise wait for ever.
const aliveEvery = 30 * time.Second

// farewell bounds how long closing the connection may take.
const farewell = time.Second

// listen turns notifications into wake-ups until ctx ends.
func (r *Relay) listen(ctx context.Context) {
	listening := service.Keeper{Log: r.log, What: "listening for wake-ups (polling meanwhile)", Optional: true}
	_ = listening.Run(ctx, r.listenSession) // an optional one ends with ctx only
}

func (r *Relay) listenSession(ctx context.Context, life *service.Life) error {
	conn, err := pgx.ConnectConfig(ctx, r.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	subscribing, cancel := context.WithTimeout(ctx, databaseTimeout)
	_, err = conn.Exec(subscribing, `LISTEN `+outbox.Channel)
	cancel()
	if err != nil {
		return err
	}
	life.Ready()
	for {
		hint(r.wake)
		if err := waitForNotification(ctx, conn); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// waitForNotification returns when one has come, or an error when the connection no longer works.
func waitForNotification(ctx context.Context, conn *pgx.Conn) error {
	for {
		waiting, cancel := context.WithTimeout(ctx, aliveEvery)
		_, err := conn.WaitForNotification(waiting)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		asking, cancel := context.WithTimeout(ctx, databaseTimeout)
		err = conn.Ping(asking)
		cancel()
		if err != nil {
			return err
		}
	}
}
