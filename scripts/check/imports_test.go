package main

import (
	"io/fs"
	"testing"
)

func TestImportsAcrossABoundaryAreFound(t *testing.T) {
	check := func(packages ...listed) func(fs.FS) ([]finding, error) {
		return func(fs.FS) ([]finding, error) { return crossed(packages), nil }
	}
	needs := func(path string, deps ...string) listed { return listed{ImportPath: module + path, Deps: deps} }

	wantFindings(t, check(
		needs("services/orders", "fmt", module+"pkg/outbox"),
		needs("services/relay", "github.com/rabbitmq/amqp091-go", module+"pkg/events/topology"),
		needs("scripts/lab", module+"services/orders"),
		needs("services/ordersview", "github.com/rabbitmq/amqp091-go"), // not below services/orders
	), nil)
	wantFindings(t, check(
		needs("services/orders", module+"pkg/x", "github.com/rabbitmq/amqp091-go"),
		needs("services/orders/deep", "github.com/twmb/franz-go/pkg/kgo"),
		needs("services/loyalty", module+"services/relay"),
		needs("services/relay", module+"scripts/lab"),
		needs("pkg/inbox", module+"scripts/lab"),
		needs("pkg/outbox", module+"services/orders"),
	), nil,
		"services/orders depends on github.com/rabbitmq/amqp091-go",
		"services/orders/deep depends on github.com/twmb/franz-go/pkg/kgo",
		"services/loyalty depends on example.com/outboxlab/services/relay",
		"services/relay depends on example.com/outboxlab/scripts/lab",
		"pkg/inbox depends on example.com/outboxlab/scripts/lab",
		"pkg/outbox depends on example.com/outboxlab/services/orders",
	)
}
