package main

import (
	"fmt"
	"time"

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
	// How many messages the broker may hand out ahead, 1 to 2000; twice LOYALTY_BATCH, so that one batch arrives while the other is handled. One at a time is handed out after a start, a lost connection or a failed delivery, growing while messages succeed: a crash counts as a failed delivery of every message in hand.
	Prefetch int `env:"LOYALTY_PREFETCH" envDefault:"2000"`
	// Most messages handled in one transaction, 1 to 2000: those that have arrived, without waiting for more. Measured on two cores: 1000 award 13 to 17 times as many a second as one, and 500 a tenth fewer.
	Batch int `env:"LOYALTY_BATCH" envDefault:"1000"`
	// How long the broker waits for the acknowledgement of a message before it cancels the consumer and hands the message out again, in whole milliseconds; empty means the broker's own limit, 30 minutes.
	ConsumerTimeout time.Duration `env:"LOYALTY_CONSUMER_TIMEOUT"`
	// How long the inbox remembers a message. Not below DLQ_RETENTION: a message redriven after that would be new to it.
	InboxRetention time.Duration `env:"INBOX_RETENTION" envDefault:"720h"`
	// How long a message may lie in the dead-letter queue before a warning says that it should be redriven or dropped.
	DLQRetention time.Duration `env:"DLQ_RETENTION" envDefault:"336h"`

	service.LogConfig
	crash.Flags
}

// Validate checks what the types cannot.
func (c *Config) Validate() error {
	// 0 would mean "as many as there are", and 2000 is what a quorum queue gives at most (facts 1.8).
	if c.Prefetch < 1 || c.Prefetch > 2000 {
		return fmt.Errorf("LOYALTY_PREFETCH=%d: must be from 1 to 2000", c.Prefetch)
	}
	if c.Batch < 1 || c.Batch > 2000 {
		return fmt.Errorf("LOYALTY_BATCH=%d: must be from 1 to 2000", c.Batch)
	}
	if c.ConsumerTimeout < 0 || c.ConsumerTimeout%time.Millisecond != 0 {
		return fmt.Errorf("LOYALTY_CONSUMER_TIMEOUT=%v: must be 1ms or more, in whole milliseconds", c.ConsumerTimeout)
	}
	if c.DLQRetention < time.Second {
		return fmt.Errorf("DLQ_RETENTION=%v: must be 1s or more", c.DLQRetention)
	}
	if c.InboxRetention < c.DLQRetention {
		return fmt.Errorf("INBOX_RETENTION=%v: must not be below DLQ_RETENTION=%v, or the inbox forgets messages that can still be redriven",
			c.InboxRetention, c.DLQRetention)
	}
	if err := service.CheckAddr("LOYALTY_ADDR", c.Addr); err != nil {
		return err
	}
	return c.CheckLog()
}
