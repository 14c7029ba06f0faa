package servers

// How does a private pair run in containers? By testcontainers-go, on fixed ports of 127.0.0.1, so that a restarted
// server is found where it was. Its companion container Ryuk removes both should this process be killed.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	tcexec "github.com/testcontainers/testcontainers-go/exec"
	"github.com/testcontainers/testcontainers-go/wait"
	"golang.org/x/sync/errgroup"
)

// containers is a private pair in two containers.
type containers struct {
	at                 URLs
	postgres, rabbitmq testcontainers.Container
}

// atOnce is the grace time of a container that has nothing to lose, or is to be killed.
var atOnce = time.Duration(0)

// The same settings as the native servers have, postgres.go and rabbitmq.go, in the words of the images.
var (
	postgresCommand = []string{"postgres", "-c", "max_connections=300"}
	postgresEnv     = map[string]string{"POSTGRES_USER": user, "POSTGRES_PASSWORD": password, "POSTGRES_DB": database}
	rabbitmqEnv     = map[string]string{"RABBITMQ_DEFAULT_USER": user, "RABBITMQ_DEFAULT_PASS": password,
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-rabbit collect_statistics_interval 1000 -rabbit quorum_tick_interval 1000 " +
			"+sbwt none +sbwtdcpu none +sbwtdio none"}
)

// startContainers starts both servers side by side and returns when both answer. It fails soon when an image is missing
// and cannot be pulled, so that the caller can take another way.
func startContainers(ctx context.Context, progress io.Writer) (runner, error) {
	if err := haveImages(ctx, progress, privateImages()...); err != nil {
		return nil, err
	}
	var at ports
	if err := at.fillFree(); err != nil {
		return nil, err
	}

	c := &containers{at: at.urls()}
	both, bothCtx := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		answer := func(ctx context.Context, alive func() bool) error { return awaitPostgres(ctx, c.at.Database, alive) }
		c.postgres, err = run(bothCtx, postgresImage(), map[int]int{5432: at.Postgres}, answer,
			testcontainers.WithEnv(postgresEnv), testcontainers.WithCmd(postgresCommand...))
		return err
	})
	both.Go(func() (err error) {
		answer := func(ctx context.Context, alive func() bool) error {
			return awaitRabbitMQ(ctx, c.at.AMQP, c.at.Management, alive)
		}
		c.rabbitmq, err = run(bothCtx, rabbitmqImage(), map[int]int{5672: at.AMQP, 15672: at.Management}, answer,
			testcontainers.WithEnv(rabbitmqEnv))
		return err
	})
	if err := both.Wait(); err != nil {
		return nil, errors.Join(err, c.stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// privateImages are the two servers' and, unless it is disabled, that of the library's cleaner.
func privateImages() []string {
	images := []string{postgresImage(), rabbitmqImage()}
	if os.Getenv("TESTCONTAINERS_RYUK_DISABLED") != "true" { // the library understands no other word
		//lint:ignore SA1019 the only place outside the library's internals that names the version it will ask for
		images = append(images, testcontainers.ReaperDefaultImage)
	}
	return images
}

// run starts one container, its inner ports published as the outer ones. A container that was created is returned even
// with an error, to be removed by the caller.
func run(ctx context.Context, image string, published map[int]int, await answers, options ...testcontainers.ContainerCustomizer) (testcontainers.Container, error) {
	var exposed []string
	bindings := network.PortMap{}
	for inner, outer := range published {
		port := network.MustParsePort(strconv.Itoa(inner) + "/tcp")
		exposed = append(exposed, port.String())
		bindings[port] = []network.PortBinding{{HostIP: netip.AddrFrom4([4]byte{127, 0, 0, 1}), HostPort: strconv.Itoa(outer)}}
	}
	started, err := testcontainers.Run(ctx, image, append(options,
		testcontainers.WithExposedPorts(exposed...),
		testcontainers.WithHostConfigModifier(func(host *container.HostConfig) { host.PortBindings = bindings }),
		// A restart is a crash, not a shutdown: stopping the container sends the kill at once.
		testcontainers.WithConfigModifier(func(config *container.Config) { config.StopSignal = "SIGKILL" }),
		testcontainers.WithWaitStrategyAndDeadline(startLimit, await),
	)...)
	if err != nil {
		err = fmt.Errorf("container of %s: %w", image, err)
	}
	if started == nil {
		return nil, err // not the nil pointer in an interface
	}
	return started, err
}

// answers is the library's wait strategy: it returns when the server in a container answers from outside. alive tells
// whether the container still runs.
type answers func(ctx context.Context, alive func() bool) error

// WaitUntilReady is called after every start of the container, the first one and restarts alike.
func (a answers) WaitUntilReady(ctx context.Context, target wait.StrategyTarget) error {
	return a(ctx, func() bool {
		state, err := target.State(ctx)
		return err != nil || state.Running // an engine that does not answer says nothing about the server
	})
}

func (c *containers) urls() URLs { return c.at }

func (c *containers) stop(ctx context.Context) error {
	var errs []error
	for _, one := range []testcontainers.Container{c.postgres, c.rabbitmq} {
		if one != nil {
			errs = append(errs, one.Terminate(ctx, testcontainers.StopTimeout(atOnce)))
		}
	}
	return errors.Join(errs...)
}

func (c *containers) restartPostgres(ctx context.Context) error { return restart(ctx, c.postgres) }
func (c *containers) restartRabbitMQ(ctx context.Context) error { return restart(ctx, c.rabbitmq) }

func restart(ctx context.Context, one testcontainers.Container) error {
	if err := one.Stop(ctx, &atOnce); err != nil {
		return err
	}
	return one.Start(ctx)
}

func (c *containers) rabbitmqctl(ctx context.Context, args ...string) (string, error) {
	code, output, err := c.rabbitmq.Exec(ctx, append([]string{"rabbitmqctl"}, args...), tcexec.Multiplexed())
	if err != nil {
		return "", fmt.Errorf("rabbitmqctl: %w", err)
	}
	text, err := io.ReadAll(output)
	if err == nil && code != 0 {
		err = fmt.Errorf("rabbitmqctl %v ended with code %d: %s", args, code, text)
	}
	return string(text), err
}
