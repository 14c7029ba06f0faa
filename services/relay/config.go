package main

import (
	"fmt"
	"time"

	"example.com/outboxlab/pkg/crash"
	"example.com/outboxlab/pkg/postgres"
	"example.com/outboxlab/pkg/rabbitmq"
	"example.com/outboxlab/pkg/service"
)

// Config is what relay reads from the environment.
type Config struct {
	// Database of the orders schema, as the role relay_app.
	DatabaseURL postgres.URL `env:"DATABASE_URL,required"`
	// Broker to publish to.
	AMQPURL rabbitmq.URL `env:"AMQP_URL,required"`
	// Where to answer health checks, host:port; empty means nowhere.
	Addr string `env:"RELAY_ADDR"`
	// Where events go: rabbitmq.
	Transport string `env:"RELAY_TRANSPORT" envDefault:"rabbitmq"`
	// Most rows claimed, published and marked together, 1 to 10000. Measured on two cores: 1000 moves 1.3 times as many events a second as 100.
	Batch int `env:"RELAY_BATCH" envDefault:"1000"`
	// How long to wait before looking again when there is nothing to publish.
	Poll time.Duration `env:"RELAY_POLL" envDefault:"1s"`
	// How rows are held while they are published: tx (locked by a transaction) or lease (by a deadline and a token).
	Claim string `env:"RELAY_CLAIM" envDefault:"tx"`
	// How often an event may fail (refused, returned, too large) before it is dead. An outage of the broker is not a failure.
	MaxAttempts int `env:"RELAY_MAX_ATTEMPTS" envDefault:"10"`
	// How long published rows are kept; 0 keeps them for ever.
	Retention time.Duration `env:"RELAY_RETENTION" envDefault:"168h"`
	// Whether to listen for wake-ups. Without, new events wait for the next poll.
	Listen bool `env:"RELAY_LISTEN" envDefault:"true"`
	// How long a batch may wait for the broker's confirms. Bounds, with some seconds for a broker that has stopped, how long rows stay locked.
	PublishTimeout time.Duration `env:"RELAY_PUBLISH_TIMEOUT" envDefault:"5s"`

	service.LogConfig
	crash.Flags
}

// Validate checks what the types cannot.
func (c *Config) Validate() error {
	switch {
	case c.Transport != "rabbitmq":
		return fmt.Errorf("RELAY_TRANSPORT=%q: must be rabbitmq", c.Transport)
	case c.Claim != "tx" && c.Claim != "lease":
		return fmt.Errorf("RELAY_CLAIM=%q: must be tx or lease", c.Claim)
	case c.MaxAttempts < 1:
		return fmt.Errorf("RELAY_MAX_ATTEMPTS=%d: must be 1 or more", c.MaxAttempts)
	case c.Retention < 0:
		return fmt.Errorf("RELAY_RETENTION=%v: must be 0 (for ever) or more", c.Retention)
	case c.Batch < 1 || c.Batch > 10_000:
		return fmt.Errorf("RELAY_BATCH=%d: must be from 1 to 10000", c.Batch)
	case c.Poll < time.Millisecond:
		return fmt.Errorf("RELAY_POLL=%v: must be 1ms or more", c.Poll)
	case c.PublishTimeout < 100*time.Millisecond || c.PublishTimeout > time.Hour:
		return fmt.Errorf("RELAY_PUBLISH_TIMEOUT=%v: must be from 100ms to 1h", c.PublishTimeout)
	}
	if c.Addr != "" {
		if err := service.CheckAddr("RELAY_ADDR", c.Addr); err != nil {
			return err
		}
	}
	return c.CheckLog()
}
