package main

// A number is worth nothing without the machine that it was measured on.

import (
	"context"
	"os"
	"runtime"
	"strings"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/scripts/stack/servers"
)

// machine describes hardware and versions.
type machine struct {
	Cores      int    `json:"cores"`
	CPU        string `json:"cpu,omitempty"`
	Platform   string `json:"platform"`
	Load       string `json:"loadBefore,omitempty"` // of the last 1, 5 and 15 minutes, before the part began
	Go         string `json:"go"`
	PostgreSQL string `json:"postgresql"`
	Fsync      string `json:"fsync"`
	RabbitMQ   string `json:"rabbitmq"`
	Servers    string `json:"servers"` // docker, native or external
}

// describe asks the machine and both servers.
func describe(ctx context.Context, pair *servers.Pair) (machine, error) {
	m := machine{Cores: runtime.NumCPU(), CPU: cpuModel(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Load: loadAverage(),
		Go: runtime.Version(), Servers: string(pair.Way)}
	conn, err := pgx.Connect(ctx, pair.URLs.Database)
	if err != nil {
		return m, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	const versions = `SELECT current_setting('server_version'), current_setting('fsync')`
	if err := conn.QueryRow(ctx, versions).Scan(&m.PostgreSQL, &m.Fsync); err != nil {
		return m, err
	}
	broker, err := amqp.Dial(pair.URLs.AMQP)
	if err != nil {
		return m, err
	}
	m.RabbitMQ, _ = broker.Properties["version"].(string)
	return m, broker.Close()
}

// cpuModel and loadAverage are empty where there is no /proc.
func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	_, after, _ := strings.Cut(string(text), "model name")
	line, _, _ := strings.Cut(after, "\n")
	return strings.TrimLeft(line, "\t: ")
}

func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); len(fields) > 3 {
		return strings.Join(fields[:3], " ")
	}
	return ""
}
