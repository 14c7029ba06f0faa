// Command loyalty turns events into points. Messages come in at session.go; rabbitmq.go decides
// what becomes of each; award.go has the effect, exactly once.
package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"syscall"

	"example.com/outboxlab/pkg/crash"
	"example.com/outboxlab/pkg/postgres"
	"example.com/outboxlab/pkg/service"
)

func main() { os.Exit(service.Run("loyalty", run)) }

// CLI is the command line.
type CLI struct {
	CrashAt string `placeholder:"POINT" help:"Die on purpose at a crash point, e.g. loyalty.before-ack (same as CRASH_AT)."`

	Run    struct{} `cmd:"" default:"1" help:"Consume events and answer HTTP (the default)."`
	Health struct{} `cmd:"" help:"Ask the service at LOYALTY_ADDR whether it is ready: exit code 0 or 1."`
	DLQ    DLQ      `cmd:"" name:"dlq" help:"List, show, redrive, export or drop messages that were given up."`
}

const examples = `Examples:
  loyalty                                     consume until SIGTERM
  loyalty --crash-at loyalty.before-ack       die after the commit, before the broker knows
  LOYALTY_PREFETCH=1 loyalty                  one message in hand at a time
  loyalty dlq list                            what was given up, and why
  loyalty dlq redrive --all                   once it is repaired: handle all that again
  curl http://127.0.0.1:8081/customers/101/points`

func run(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	var cli CLI
	command, err := service.ParseArgs("loyalty", "Award points for orders, each order once.", examples, &cli, args, stdout)
	if err != nil || command == "" {
		return err
	}
	if command == "health" {
		return service.Health(ctx, getenv, "LOYALTY_ADDR", defaultAddr)
	}
	dlq, err := cli.DLQ.prepare(command, stdout)
	if err != nil {
		return err
	}
	config, err := service.Load[Config](getenv)
	if err != nil {
		return err
	}
	plan, err := config.CrashPlan("loyalty", cli.CrashAt)
	if err != nil {
		return service.Usagef("--crash-at: %w", err)
	}
	log := service.NewLogger("loyalty", config.LogConfig, stdout)
	crash.Arm(plan, func(line string) { log.Warn(line) })
	if dlq != nil {
		return dlq(ctx, config)
	}
	log.Info("starting with " + service.Describe(config))

	pool, err := postgres.Open(config.DatabaseURL, "loyalty", postgres.Options{})
	if err != nil {
		return err
	}
	defer pool.Close()
	listener, err := listen(log, config.Addr)
	if err != nil {
		return err
	}
	return serve(ctx, newConsumer(pool, config, log), listener)
}

// listen opens addr. A default address that is taken is no reason not to consume: with a second
// loyalty on the same machine, one of them answers HTTP. The listener is then nil.
func listen(log *slog.Logger, addr string) (net.Listener, error) {
	listener, err := service.Listen(log, addr)
	if addr == defaultAddr && errors.Is(err, syscall.EADDRINUSE) {
		log.Warn(addr+" is taken: consuming without answering HTTP (set LOYALTY_ADDR for another address)", "addr", addr)
		return nil, nil
	}
	return listener, err
}

// serve consumes until ctx ends, and answers HTTP meanwhile.
func serve(ctx context.Context, consumer *Consumer, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listening := make(chan error, 1)
	if listener == nil {
		listening <- nil
	} else {
		go func() {
			defer cancel() // a service that cannot be asked any more should not go on unseen
			listening <- service.Serve(ctx, listener, newHandler(consumer))
		}()
	}
	forgetting := make(chan struct{})
	go func() {
		defer close(forgetting)
		consumer.keepForgetting(ctx)
	}()
	err := service.KeepUp(ctx, consumer.log, "consuming", consumer.session)
	cancel() // also when it is not ctx that has ended it
	<-forgetting
	consumer.log.Info("stopped")
	return errors.Join(err, <-listening)
}
