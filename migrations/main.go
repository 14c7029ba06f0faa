// Command migrations brings a database's schemas up or down, or tells where they stand. The
// migrations themselves are the SQL files under migrations/schema; this file is only the way in.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"example.com/outboxlab/migrations/schema"
	"example.com/outboxlab/pkg/postgres"
	"example.com/outboxlab/pkg/service"
)

func main() { os.Exit(service.Run("migrations", run)) }

// Config is what migrations reads from the environment.
type Config struct {
	// Database to migrate, as its owner, who must be able to create what is missing: schemas, and roles (under a lock in the database postgres).
	DatabaseURL postgres.URL `env:"DATABASE_URL,required"`
	// Password of the role orders_app. Empty: a new role gets its own name as password (development), an existing one keeps what it has.
	OrdersPassword string `env:"ORDERS_DB_PASSWORD"`
	// Password of the role relay_app, as above.
	RelayPassword string `env:"RELAY_DB_PASSWORD"`
	// Password of the role loyalty_app, as above.
	LoyaltyPassword string `env:"LOYALTY_DB_PASSWORD"`
}

// CLI is the command line.
type CLI struct {
	Up     SchemaArgs `cmd:"" help:"Create roles and bring schemas to the newest version."`
	Down   SchemaArgs `cmd:"" help:"Remove the schemas' tables and all that is in them (roles stay)."`
	Status SchemaArgs `cmd:"" help:"List the migrations and when they were applied."`
}

// SchemaArgs narrows a command to some schemas, for when services have databases of their own.
type SchemaArgs struct {
	Schemas []string `arg:"" optional:"" enum:"orders,loyalty" help:"Schemas to migrate: orders, loyalty (default: both)."`
}

const examples = `Examples:
  eval "$(go run ./scripts/stack env)" && go run ./migrations up
  DATABASE_URL=postgres://owner:secret@127.0.0.1:5432/loyalty go run ./migrations up loyalty
  go run ./migrations status`

func run(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	var cli CLI
	command, err := service.ParseArgs("migrations", "Create and migrate the lab's schemas.", examples, &cli, args, stdout)
	if err != nil || command == "" {
		return err
	}
	config, err := service.Load[Config](getenv)
	if err != nil {
		return err
	}
	log := func(line string) { fmt.Fprintln(stdout, "[migrations] "+line) }
	url := config.DatabaseURL.Reveal()
	if err := postgres.Await(ctx, config.DatabaseURL, service.OneShotTimeout); err != nil {
		return err
	}
	if err := postgres.NeedSession(ctx, config.DatabaseURL); err != nil {
		return err
	}
	switch command {
	case "up":
		passwords := schema.Passwords{"orders_app": config.OrdersPassword, "relay_app": config.RelayPassword, "loyalty_app": config.LoyaltyPassword}
		if err := schema.Up(ctx, url, passwords, log, cli.Up.Schemas...); err != nil {
			return err
		}
		log("up to date")
		return nil
	case "down":
		return schema.Down(ctx, url, log, cli.Down.Schemas...)
	default:
		return schema.Status(ctx, url, log, cli.Status.Schemas...)
	}
}
