// Command relay moves outbox rows to the broker: claim, publish, settle (relay.go). What it may
// do wrong is publish an event twice; what it must never do is mark one that the broker does not
// have (rabbitmq.go).
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/pkg/crash"
	"example.com/outboxlab/pkg/postgres"
	"example.com/outboxlab/pkg/service"
)

func main() { os.Exit(service.Run("relay", run)) }

// CLI is the command line.
type CLI struct {
	CrashAt string `placeholder:"POINT" help:"Die on purpose at a crash point, e.g. relay.after-publish (same as CRASH_AT)."`

	Run struct {
		Once bool `help:"Publish at most one batch, then exit."`
	} `cmd:"" default:"withargs" help:"Publish for ever (the default)."`
	Health struct{} `cmd:"" help:"Ask the relay at RELAY_ADDR whether it is ready: exit code 0 or 1."`
}

const examples = `Examples:
  relay                                    publish until SIGTERM
  relay --once                             publish one batch: the step-by-step way
  RELAY_BATCH=10 relay                     small batches; start several, they share the rows
  relay --once --crash-at relay.after-publish    confirmed by the broker, not marked: published again later`

func run(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	var cli CLI
	command, err := service.ParseArgs("relay", "Move outbox rows to the broker; mark each after its own confirm.", examples, &cli, args, stdout)
	if err != nil || command == "" {
		return err
	}
	if command == "health" {
		return service.Health(ctx, getenv, "RELAY_ADDR", "")
	}
	config, err := service.Load[Config](getenv)
	if err != nil {
		return err
	}
	plan, err := config.CrashPlan(cli.CrashAt)
	if err != nil {
		return service.Usagef("--crash-at: %w", err)
	}
	log := service.NewLogger("relay", config.LogConfig, stdout)
	crash.Arm(plan, func(line string) { log.Warn(line) })

	pool, err := openPool(config)
	if err != nil {
		return err
	}
	defer pool.Close()

	r := &Relay{pool: pool, batch: config.Batch, poll: config.Poll, log: log}
	r.open = func(ctx context.Context) (Transport, error) {
		return openRabbitMQ(ctx, config.AMQPURL, config.PublishTimeout)
	}
	if cli.Run.Once {
		return once(ctx, config, r)
	}
	log.Info("starting with " + service.Describe(config))
	return serve(ctx, config, r)
}

// idleMargin is how much longer than its publishing a transaction may wait for its relay.
const idleMargin = 5 * time.Second

// openPool sees to it that the rows of a relay frozen in the middle of a batch become free again: the
// server ends a transaction whose client is silent for longer than publishing can take.
func openPool(config Config) (*pgxpool.Pool, error) {
	return postgres.Open(config.DatabaseURL, "relay", postgres.Options{IdleInTransaction: config.PublishTimeout + idleMargin})
}

// serve publishes until ctx ends, and answers health checks meanwhile if it has an address.
func serve(ctx context.Context, config Config, r *Relay) error {
	listening := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if config.Addr == "" {
		listening <- nil
	} else {
		listener, err := service.Listen(r.log, config.Addr)
		if err != nil {
			return err
		}
		router, _ := service.NewRouter("relay", r.Ready, service.NewMetrics())
		go func() {
			defer cancel() // a relay that cannot be asked any more should not go on unseen
			listening <- service.Serve(ctx, listener, router)
		}()
	}
	service.KeepUp(ctx, r.log, "publishing", r.session)
	r.log.Info("stopped")
	return <-listening
}

// once publishes at most one batch. It looks for its servers for 10 s, and fails if a row of the
// batch could not be published.
func once(ctx context.Context, config Config, r *Relay) error {
	if err := postgres.Await(ctx, config.DatabaseURL, service.OneShotTimeout); err != nil {
		return err
	}
	transport, err := service.Try(ctx, service.OneShotTimeout, r.open)
	if err != nil {
		return fmt.Errorf("no answer from %s within %v: %w", config.AMQPURL, service.OneShotTimeout, err)
	}
	defer transport.Close()
	done, err := r.publishBatch(ctx, transport)
	if err == nil && done.failed > 0 {
		err = fmt.Errorf("%d of %d events not published, they stay in the outbox", done.failed, done.claimed)
	}
	return err
}
