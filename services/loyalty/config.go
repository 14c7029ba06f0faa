package main

import (
	"fmt"

	"example.com/outboxlab/pkg/crash"
	"example.com/outboxlab/pkg/postgres"
	"example.com/outboxlab/pkg/rabbitmq"
	"example.com/outboxlab/pkg/service"
)

const defaultAddr = "127.0.0.1:8081"

// Config is what loyalty reads from the environment.
type Config struct {
	// Database of the loyalty schema, as the role loyalty_app.
	DatabaseURL postgres.URL `env:"DATABASE_URL,required"`
	// Broker to consume from.
	AMQPURL rabbitmq.URL `env:"AMQP_URL,required"`
	// Where to answer HTTP, host:port; port 0 picks a free one. If the default is taken, by a second loyalty say, it is done without.
	Addr string `env:"LOYALTY_ADDR" envDefault:"127.0.0.1:8081"`
	// How many messages the broker may hand out ahead, 1 to 2000. A crash counts as one failed delivery of every one of them.
	Prefetch int `env:"LOYALTY_PREFETCH" envDefault:"10"`

	service.LogConfig
	crash.Flags
}

// Validate checks what the types cannot.
func (c *Config) Validate() error {
	// 0 would mean "as many as there are", and 2000 is what a quorum queue gives at most (facts 1.8).
	if c.Prefetch < 1 || c.Prefetch > 2000 {
		return fmt.Errorf("LOYALTY_PREFETCH=%d: must be from 1 to 2000", c.Prefetch)
	}
	if err := service.CheckAddr("LOYALTY_ADDR", c.Addr); err != nil {
		return err
	}
	return c.CheckLog()
}
