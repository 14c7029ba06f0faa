package main

// What does each command do and print? All but `with`.

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"example.com/outboxlab/scripts/stack/servers"
)

type up struct{}

func (up) Run(ctx context.Context, t terminal) error {
	at, way, err := servers.Up(ctx, ".", t.err)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "up (%s):\n", way)
	return list(t, at, way)
}

type down struct{}

func (down) Run(ctx context.Context, t terminal) error {
	if err := servers.Down(ctx, ".", t.err); err != nil {
		return err
	}
	fmt.Fprintln(t.out, "down")
	return nil
}

type status struct{}

func (status) Run(ctx context.Context, t terminal) error {
	at, way, err := servers.Recorded(".")
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "recorded (%s):\n", way)
	if err := list(t, at, way); err != nil {
		return err
	}
	have, err := servers.Check(ctx, ".")
	if err != nil {
		return fmt.Errorf("%w\n`go run ./scripts/stack up` starts what does not run", err)
	}
	fmt.Fprintf(t.out, "both answer: PostgreSQL %s, RabbitMQ %s\n", have.PostgreSQL, have.RabbitMQ)
	return nil
}

// list prints the URLs, to be copied. Passwords of servers that are not ours are somebody's secrets and stay hidden.
func list(t terminal, at servers.URLs, way servers.Way) error {
	for _, line := range []struct{ name, address string }{
		{"PostgreSQL", at.Database}, {"RabbitMQ", at.AMQP}, {"management", at.Management},
	} {
		shown := line.address
		if way == servers.External {
			parsed, err := url.Parse(line.address)
			if err != nil {
				return fmt.Errorf("the URL of %s cannot be parsed", line.name)
			}
			shown = parsed.Redacted()
		}
		fmt.Fprintf(t.out, "  %-11s %s\n", line.name, shown)
	}
	return nil
}

type env struct {
	Service string `arg:"" optional:"" help:"orders, relay or loyalty: the variables of that service, with its own database role."`
}

func (e env) Run(t terminal) error {
	at, _, err := servers.Recorded(".")
	if err != nil {
		return err
	}
	if ignored := servers.Ignored(); len(ignored) > 0 { // psql and bin/… would obey them
		fmt.Fprintln(t.out, "unset", strings.Join(ignored, " "))
	}
	if e.Service == "" {
		export(t, "DATABASE_URL", at.Database)
		export(t, "AMQP_URL", at.AMQP)
		export(t, "RABBITMQ_MANAGEMENT_URL", at.Management)
		project, err := servers.RecordedProject(".")
		if err == nil && project != "" { // `docker compose exec` then finds these containers
			export(t, "COMPOSE_PROJECT_NAME", project)
		}
		return err
	}
	own, err := at.DatabaseFor(e.Service)
	if err != nil {
		return err
	}
	export(t, "DATABASE_URL", own)
	if e.Service != "orders" { // orders does not know that there is a broker
		export(t, "AMQP_URL", at.AMQP)
	}
	return nil
}

var needsQuotes = regexp.MustCompile(`[^\w@%+=:,./?-]`)

// export prints a line for the shell. Our own URLs need no quotes, so that `export $(…)` takes them as well; an external
// one may.
func export(t terminal, name, value string) {
	if needsQuotes.MatchString(value) {
		value = "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
	}
	fmt.Fprintf(t.out, "export %s=%s\n", name, value)
}

type rootfs struct{}

func (rootfs) Run(ctx context.Context, t terminal) error {
	path, err := servers.RootFS(ctx, t.err)
	if err != nil {
		return err
	}
	fmt.Fprintln(t.out, path)
	return nil
}
