package main

// One measurement takes place in a lab, which is empty at the beginning, with the services that it starts.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"example.com/outboxlab/pkg/events/topology"
	"example.com/outboxlab/pkg/rabbitmq"
	"example.com/outboxlab/scripts/lab"
)

// site is a lab with connections to look into it, and its services.
type site struct {
	*lab.Lab
	db         *pgxpool.Pool // as owner
	broker     *amqp.Connection
	ch         *amqp.Channel // topology declared
	publishing []*rabbitmq.Conn
	binaries   string
	services   []*process
}

// at makes a site, lets do use it, and takes it down.
func (r *rig) at(ctx context.Context, do func(s *site) error) (err error) {
	l, err := lab.New(ctx, r.pair.URLs)
	if err != nil {
		return err
	}
	s := &site{Lab: l, binaries: r.binaries}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	if s.db, err = pgxpool.New(ctx, l.OwnerURL); err != nil {
		return err
	}
	if s.broker, err = amqp.Dial(l.AMQPURL); err != nil {
		return err
	}
	if s.ch, err = s.broker.Channel(); err != nil {
		return err
	}
	if err := topology.Declare(s.ch); err != nil {
		return err
	}
	return do(s)
}

func (s *site) close(ctx context.Context) error {
	for _, p := range s.services {
		p.Destroy()
	}
	for _, conn := range s.publishing {
		conn.Close()
	}
	if s.db != nil {
		s.db.Close()
	}
	if s.broker != nil {
		_ = s.broker.Close() // the vhost goes with the lab
	}
	return s.Close(ctx)
}

// start runs a service until it is ready. A variable in extra wins over the usual one.
func (s *site) start(ctx context.Context, service string, extra ...string) (*process, error) {
	p, err := startProcess(ctx, filepath.Join(s.binaries, service), append(s.environment(service), extra...))
	if p != nil {
		s.services = append(s.services, p)
	}
	return p, err
}

// startTogether runs n of them, none of which has a head start.
func (s *site) startTogether(ctx context.Context, n int, service string, extra ...string) error {
	group, ctx := errgroup.WithContext(ctx)
	started := make([]*process, n)
	for i := range started {
		group.Go(func() (err error) {
			started[i], err = startProcess(ctx, filepath.Join(s.binaries, service), append(s.environment(service), extra...))
			return err
		})
	}
	err := group.Wait()
	for _, p := range started {
		if p != nil {
			s.services = append(s.services, p)
		}
	}
	return err
}

// runToEnd runs a command of a service and is satisfied only with exit code 0.
func (s *site) runToEnd(ctx context.Context, service string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.binaries, service), args...)
	cmd.Env = s.environment(service)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", service, args, err, output)
	}
	return nil
}

// environment is all a service gets to see: its own role's URL and free ports.
func (s *site) environment(service string) []string {
	env := []string{"LOG_LEVEL=info", "PATH=" + os.Getenv("PATH")}
	switch service {
	case "orders":
		env = append(env, "DATABASE_URL="+s.OrdersURL, "ORDERS_ADDR="+anyPort)
	case "relay":
		env = append(env, "DATABASE_URL="+s.RelayURL, "AMQP_URL="+s.AMQPURL, "RELAY_ADDR="+anyPort)
	case "loyalty":
		env = append(env, "DATABASE_URL="+s.LoyaltyURL, "AMQP_URL="+s.AMQPURL, "LOYALTY_ADDR="+anyPort)
	}
	return env
}

const anyPort = "127.0.0.1:0"

// until asks again and again until the answer is yes; the pause is the precision of what it times.
func until(ctx context.Context, what string, within, pause time.Duration, cond func() (bool, error)) error {
	deadline := time.Now().Add(within)
	for {
		done, err := cond()
		if err != nil || done {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %v: %s", within, what)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
