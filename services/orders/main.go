// Command orders accepts orders. It knows PostgreSQL and nothing of a broker: an order counts as
// accepted when it and its outbox row are committed (place.go), and what happens to the event
// from there is the relay's business. Requests come in at http.go.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"example.com/outboxlab/pkg/crash"
	"example.com/outboxlab/pkg/outbox"
	"example.com/outboxlab/pkg/postgres"
	"example.com/outboxlab/pkg/service"
)

func main() { os.Exit(service.Run("orders", run)) }

// CLI is the command line.
type CLI struct {
	CrashAt string `placeholder:"POINT" help:"Die on purpose at a crash point, e.g. orders.before-commit (same as CRASH_AT)."`

	Serve  struct{} `cmd:"" default:"1" help:"Accept orders over HTTP (the default)."`
	Place  PlaceCmd `cmd:"" help:"Place one order, through the same function as the HTTP handler."`
	Health struct{} `cmd:"" help:"Ask the service at ORDERS_ADDR whether it is ready: exit code 0 or 1."`
}

// PlaceCmd is one order.
type PlaceCmd struct {
	Customer int64 `arg:"" help:"Customer id, 1 or more."`
	Total    int32 `arg:"" help:"Total in whole tenge (KZT), 1 or more."`
}

const examples = `Examples:
  orders                                                     serve on ORDERS_ADDR
  orders place 101 12000                                     customer 101 orders for 12000 KZT
  orders place --crash-at orders.before-commit 101 12000     die with the transaction open
  curl -d '{"customerId":101,"totalKzt":12000}' http://127.0.0.1:8080/orders`

func run(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	var cli CLI
	command, err := service.ParseArgs("orders", "Accept orders; write each with its event in one transaction.", examples, &cli, args, stdout)
	if err != nil || command == "" {
		return err
	}
	if command == "health" {
		return service.Health(ctx, getenv, "ORDERS_ADDR", defaultAddr)
	}
	if err := cli.Place.check(command); err != nil {
		return err
	}
	config, err := service.Load[Config](getenv)
	if err != nil {
		return err
	}
	plan, err := config.CrashPlan("orders", cli.CrashAt)
	if err != nil {
		return service.Usagef("--crash-at: %w", err)
	}
	log := service.NewLogger("orders", config.LogConfig, stdout)
	crash.Arm(plan, func(line string) { log.Warn(line) })

	pool, err := postgres.Open(config.DatabaseURL, "orders", postgres.Options{})
	if err != nil {
		return err
	}
	defer pool.Close()
	var waker *outbox.Waker // nil wakes nobody
	if config.Wake {
		waker = outbox.NewWaker(pool)
	}
	defer waker.Close()
	if command == "serve" {
		return serve(ctx, config, pool, newHandler(pool, waker, log), log)
	}
	return placeOne(ctx, config, pool, waker, cli.Place, stdout)
}

func (c PlaceCmd) check(command string) error {
	if command == "serve" {
		return nil
	}
	if c.Customer < 1 {
		return service.Usagef("customer must be 1 or more, not %d", c.Customer)
	}
	if c.Total < 1 {
		return service.Usagef("total must be 1 KZT or more, not %d", c.Total)
	}
	return nil
}

func serve(ctx context.Context, config Config, pool *pgxpool.Pool, handler http.Handler, log *slog.Logger) error {
	log.Info("starting with " + service.Describe(config))
	listener, err := service.Listen(log, config.Addr)
	if err != nil {
		return err
	}
	defer log.Info("stopped")
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return service.Serve(ctx, listener, handler) })
	group.Go(func() error { return service.KeepUp(ctx, log, "reaching the database", firstAnswer(pool)) })
	return group.Wait()
}

// needs is what Place does with its tables.
var needs = []postgres.Need{
	{Privilege: "INSERT", Table: "orders.orders"}, {Privilege: "SELECT", Table: "orders.orders"}, {Privilege: "INSERT", Table: "orders.outbox"},
}

// firstAnswer asks the database until it can be used for the first time. An answer that no waiting changes, such as a
// wrong password, ends the service; whatever comes later is for the requests to tell.
func firstAnswer(pool *pgxpool.Pool) service.Session {
	return func(ctx context.Context, life *service.Life) error {
		asking, cancel := context.WithTimeout(ctx, service.OneShotTimeout)
		defer cancel()
		if err := postgres.Ready(asking, pool, "orders.outbox", needs...); err != nil {
			return err
		}
		life.Worked()
		<-ctx.Done()
		return nil
	}
}

// placeOne is the whole of `orders place`. Its line is always printed, whatever LOG_LEVEL says.
func placeOne(ctx context.Context, config Config, pool *pgxpool.Pool, waker *outbox.Waker, c PlaceCmd, stdout io.Writer) error {
	if err := postgres.Await(ctx, config.DatabaseURL, service.OneShotTimeout); err != nil {
		return err
	}
	order, err := Place(ctx, pool, NewOrder{CustomerID: c.Customer, TotalKZT: c.Total})
	if err != nil {
		return fmt.Errorf("order not placed: %w", err)
	}
	waker.Wake()
	logger := service.NewLogger("orders", config.AtLeast(slog.LevelInfo), stdout)
	logger.Info(saved(order), "order", order.ID)
	return nil
}
