package main

import (
	"example.com/outboxlab/pkg/crash"
	"example.com/outboxlab/pkg/postgres"
	"example.com/outboxlab/pkg/service"
)

const defaultAddr = "127.0.0.1:8080"

// Config is what orders reads from the environment.
type Config struct {
	// Database of the orders schema, as the role orders_app.
	DatabaseURL postgres.URL `env:"DATABASE_URL,required"`
	// Where to listen for HTTP, host:port; port 0 picks a free one.
	Addr string `env:"ORDERS_ADDR" envDefault:"127.0.0.1:8080"`

	// Whether to wake the relay after each order. Without, an event waits for the relay's next poll.
	Wake bool `env:"ORDERS_WAKE" envDefault:"true"`

	service.LogConfig
	crash.Flags
}

// Validate checks what the types cannot.
func (c *Config) Validate() error {
	if err := service.CheckAddr("ORDERS_ADDR", c.Addr); err != nil {
		return err
	}
	return c.CheckLog()
}
