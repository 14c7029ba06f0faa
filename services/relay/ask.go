package main

import (
	"context"
	"io"

	"example.com/outboxlab/pkg/postgres"
	"example.com/outboxlab/pkg/service"
)

// This file answers: which commands look at the outbox and need no broker? status and dead.

// AskConfig is what these commands read from the environment: less than a relay that publishes.
type AskConfig struct {
	DatabaseURL postgres.URL `env:"DATABASE_URL,required"`
}

// ask runs one of these commands. It looks for the database for 10 s.
func ask(ctx context.Context, command string, cli CLI, getenv func(string) string, stdout io.Writer) error {
	config, err := service.Load[AskConfig](getenv)
	if err != nil {
		return err
	}
	if err := postgres.Await(ctx, config.DatabaseURL, service.OneShotTimeout); err != nil {
		return err
	}
	pool, err := openPool(config.DatabaseURL, 0)
	if err != nil {
		return err
	}
	defer pool.Close()
	ctx, cancel := context.WithTimeout(ctx, service.OneShotTimeout)
	defer cancel()
	switch command {
	case "list":
		return listDead(ctx, pool, cli.Dead.List, stdout)
	case "requeue":
		return requeue(ctx, pool, cli.Dead.Requeue, stdout)
	default:
		return status(ctx, pool, cli.Status.JSON, stdout)
	}
}
