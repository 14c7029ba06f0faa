// Command relay moves outbox rows to the broker: claim, publish, settle (relay.go). What it may
// do wrong is publish an event twice; what it must never do is mark one that the broker does not
// have (rabbitmq.go).
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

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
	} `cmd:"" default:"withargs" help:"Publish for ever (the default), or one batch: --once."`
	Status struct {
		JSON bool `name:"json" help:"As JSON."`
	} `cmd:"" help:"Tell how far behind the outbox is."`
	Dead   DeadCmd  `cmd:"" help:"List or requeue events that were given up."`
	Health struct{} `cmd:"" help:"Ask the relay at RELAY_ADDR whether it is ready: exit code 0 or 1."`
}

const examples = `Examples:
  relay                                          publish until SIGTERM
  relay --once                                   publish one batch: the step-by-step way
  RELAY_BATCH=10 relay                           small batches; start several, they share the rows
  relay --once --crash-at relay.after-publish    confirmed by the broker, not marked: published again later
  relay status                                   pending, in flight, waiting, dead
  relay dead list                                what was given up, and why
  relay dead requeue 17 18                       try these again`

func run(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	var cli CLI
	command, err := service.ParseArgs("relay", "Move outbox rows to the broker; mark each after its own confirm.", examples, &cli, args, stdout)
	if err != nil || command == "" {
		return err
	}
	if command == "health" {
		return service.Health(ctx, getenv, "RELAY_ADDR", "")
	}
	if command == "requeue" {
		if err := cli.Dead.Requeue.check(); err != nil {
			return err
		}
	}
	if command != "run" {
		return ask(ctx, command, cli, getenv, stdout)
	}
	config, err := service.Load[Config](getenv)
	if err != nil {
		return err
	}
	plan, err := config.CrashPlan("relay", cli.CrashAt)
	if err != nil {
		return service.Usagef("--crash-at: %w", err)
	}
	log := service.NewLogger("relay", config.LogConfig, stdout)
	crash.Arm(plan, func(line string) { log.Warn(line) })
	pool, err := openPool(config.DatabaseURL, config.PublishTimeout)
	if err != nil {
		return err
	}
	defer pool.Close()
	registry := service.NewMetrics()
	r := newRelay(config, pool, log, newMetrics(registry))
	if cli.Run.Once {
		return once(ctx, config, r)
	}
	log.Info("starting with " + service.Describe(config))
	registry.MustRegister(backlogCollector{pool})
	return serve(ctx, config, r, registry)
}

func newRelay(config Config, pool *pgxpool.Pool, log *slog.Logger, m *metrics) *Relay {
	claimer := &Claimer{pool: pool, floor: &floor{}}
	if config.Claim == "lease" {
		claimer.lease = config.PublishTimeout + leaseMargin
	}
	return &Relay{
		pool: pool, claimer: claimer, batch: config.Batch, poll: config.Poll, maxAttempts: config.MaxAttempts,
		wake: make(chan struct{}, 1), log: log, metrics: m,
		open: func(ctx context.Context) (Transport, error) {
			return openRabbitMQ(ctx, config.AMQPURL, config.PublishTimeout, config.Batch)
		},
	}
}

const (
	// idleMargin is how much longer than its publishing a transaction may wait for its relay: 2 s until a
	// stuck write and a silent session are given up, and some for a slow machine.
	idleMargin = 5 * time.Second
	// leaseMargin is what a lease has to outlast besides the publishing: loading and settling
	// (databaseTimeout each), and as in idleMargin.
	leaseMargin = 2*databaseTimeout + 5*time.Second
)

// openPool sees to it that the rows of a relay frozen in the middle of a batch become free again: the
// server ends a transaction whose client is silent for longer than publishing can take.
func openPool(u postgres.URL, publishTimeout time.Duration) (*pgxpool.Pool, error) {
	return postgres.Open(u, "relay", postgres.Options{IdleInTransaction: publishTimeout + idleMargin, NoJIT: true})
}

// serve publishes until ctx ends, and answers health checks meanwhile if it has an address.
func serve(ctx context.Context, config Config, r *Relay, registry *prometheus.Registry) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	if config.Addr != "" {
		listener, err := service.Listen(r.log, config.Addr)
		if err != nil {
			return err
		}
		router, _ := service.NewRouter("relay", r.Ready, registry)
		group.Go(func() error { return service.Serve(ctx, listener, router) })
	}
	group.Go(func() error { return needSession(ctx, config.DatabaseURL) })
	if config.Listen {
		group.Go(func() error { r.listen(ctx); return nil })
	}
	if config.Retention > 0 {
		p := &pruner{pool: r.pool, retention: config.Retention, log: r.log, metrics: r.metrics}
		group.Go(func() error { p.prune(ctx); return nil })
	}
	group.Go(func() error { return service.KeepUp(ctx, r.log, "publishing", r.session) })
	err := group.Wait()
	r.log.Info("stopped")
	return err
}

// once publishes at most one batch. It looks for its servers for 10 s, and fails if a row of the
// batch could not be published.
func once(ctx context.Context, config Config, r *Relay) error {
	if err := postgres.Await(ctx, config.DatabaseURL, service.OneShotTimeout); err != nil {
		return err
	}
	if err := postgres.NeedSession(ctx, config.DatabaseURL); err != nil {
		return err
	}
	transport, err := service.Try(ctx, service.OneShotTimeout, r.open)
	if err != nil {
		return fmt.Errorf("cannot use %s: %w", config.AMQPURL, err)
	}
	defer transport.Close()
	if err := r.askDatabase(ctx); err != nil {
		return err
	}
	done, err := r.publishBatch(ctx, transport, r.batch, true) // it knows nothing of the one before, which may have met a row that cannot be marked
	if err == nil && done == (Settled{}) {
		r.log.Info("nothing to publish now: `relay status` tells what waits")
	}
	if err == nil && done.Failed > 0 {
		err = fmt.Errorf("%d of %d events not published, they stay in the outbox", done.Failed, done.Published+done.Failed)
	}
	if err == nil && done.Refused > 0 {
		err = fmt.Errorf("the database refused %d rows, they stay in the outbox", done.Refused)
	}
	return err
}
