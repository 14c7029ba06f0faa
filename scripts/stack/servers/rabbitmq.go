package servers

// How does the native RabbitMQ start, and how is it asked something with rabbitmqctl?

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
)

const (
	rabbitHome = "/var/lib/rabbitmq"     // where its directory appears inside the root
	rabbitBin  = "/usr/lib/rabbitmq/bin" // not /usr/sbin: the wrappers there write to /var/log
	rabbitNode = "outboxlab@localhost"   // every pair has an epmd of its own, so the names do not collide
)

// rabbitSettings open the listeners on loopback only. Statistics are collected every second instead of every five, so
// that the management page shows what has just happened.
const rabbitSettings = `listeners.tcp.1 = 127.0.0.1:%d
management.tcp.ip = 127.0.0.1
management.tcp.port = %d
default_user = ` + user + `
default_pass = ` + password + `
default_user_tags.administrator = true
collect_statistics_interval = 1000
`

// rabbitAdvanced holds the one setting without a name in the other file: how often a quorum queue reports its length.
const rabbitAdvanced = "[{rabbit, [{quorum_tick_interval, 1000}]}].\n"

func (n *native) rabbitDir() string { return filepath.Join(n.dir, "rabbitmq") }

// rabbit runs a program with the environment that server and rabbitmqctl must agree on: node name, ports, and the
// cookie in HOME.
func (n *native) rabbit(command ...string) inRoot {
	environment := []string{
		"/usr/bin/env", "HOME=" + rabbitHome,
		"RABBITMQ_NODENAME=" + rabbitNode,
		"RABBITMQ_DIST_PORT=" + strconv.Itoa(n.ports.Distribution),
		"ERL_EPMD_PORT=" + strconv.Itoa(n.ports.EPMD),
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_MNESIA_BASE=" + rabbitHome + "/mnesia",
		"RABBITMQ_LOG_BASE=" + rabbitHome + "/log",
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + rabbitHome + "/enabled_plugins",
		"RABBITMQ_CONFIG_FILE=" + rabbitHome + "/rabbitmq.conf",
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + rabbitHome + "/advanced.config",
		// The start script then becomes the Erlang machine, which answers SIGTERM with an orderly stop.
		"RUNNING_UNDER_SYSTEMD=true",
		// Idle schedulers sleep instead of spinning: several brokers share a small machine. The port between
		// Erlang nodes, too, listens on loopback only.
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}",
	}
	return inRoot{root: n.root, data: n.rabbitDir(), mountpoint: rabbitHome, user: "rabbitmq", dieWithUs: n.private,
		command: append(environment, command...)}
}

func (n *native) startRabbitMQ(ctx context.Context) error {
	server := n.rabbit(rabbitBin + "/rabbitmq-server")
	if err := server.makeData(); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"rabbitmq.conf":   fmt.Sprintf(rabbitSettings, n.ports.AMQP, n.ports.Management),
		"advanced.config": rabbitAdvanced,
		"enabled_plugins": "[rabbitmq_management].\n",
	} {
		if err := writeForServer(filepath.Join(n.rabbitDir(), name), text); err != nil {
			return err
		}
	}

	log := filepath.Join(n.dir, "rabbitmq.log")
	if err := n.launch(server, log, &n.rabbitProcess); err != nil {
		return fmt.Errorf("RabbitMQ: %w", err)
	}
	at := n.urls()
	if err := awaitRabbitMQ(ctx, at.AMQP, at.Management, n.rabbitProcess.alive); err != nil {
		return n.startFailed(n.rabbitProcess, err, log)
	}
	return nil
}

func (n *native) rabbitmqctl(ctx context.Context, args ...string) (string, error) {
	return n.rabbit(append([]string{rabbitBin + "/rabbitmqctl"}, args...)...).run(ctx)
}
