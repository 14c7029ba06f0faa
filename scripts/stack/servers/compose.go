package servers

// How does the main stack run in containers? As two services of compose.yaml, brought up by docker compose.

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// compose is the main stack in containers. It is only ever brought up and down as a whole.
type compose struct {
	root string // of the repository, where compose.yaml is
	at   URLs
}

// upCompose brings the two services up and returns when compose calls them healthy and both answer here.
func upCompose(ctx context.Context, root string, progress io.Writer) (runner, error) {
	chosen, err := mainPorts()
	if err != nil {
		return nil, err
	}
	if err := composeRun(ctx, root, io.Discard, "version"); err != nil {
		return nil, fmt.Errorf("the Docker engine has no compose: %w", err)
	}
	if err := haveImages(ctx, progress, postgresImage(), rabbitmqImage()); err != nil {
		return nil, err
	}
	fmt.Fprintln(progress, "starting PostgreSQL and RabbitMQ with docker compose")
	c := compose{root: root, at: chosen.urlsWith(cmp.Or(os.Getenv("POSTGRES_PASSWORD"), password), cmp.Or(os.Getenv("RABBITMQ_PASSWORD"), password))}
	err = composeRun(ctx, root, io.Discard, "up", "--wait", "postgres", "rabbitmq")
	if err == nil {
		_, err = check(ctx, c.at)
	}
	if err != nil { // half a pair must not hold the ports that another way needs; the data stays
		return nil, errors.Join(err, composeRun(context.WithoutCancel(ctx), root, io.Discard, "rm", "--stop", "--force", "postgres", "rabbitmq"))
	}
	return c, nil
}

// downCompose removes the containers with their data.
func downCompose(ctx context.Context, root string) error {
	return composeRun(ctx, root, io.Discard, "down", "--volumes")
}

func composeRun(ctx context.Context, root string, to io.Writer, args ...string) error {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "docker", append([]string{"compose"}, args...)...)
	cmd.Dir = root
	cmd.Stdout = io.MultiWriter(&out, to)
	cmd.Stderr = cmd.Stdout
	if err := cmd.Run(); err != nil {
		return explain(fmt.Errorf("docker compose %s: %w: %s", args[0], err, lastLines(out.String(), 8)), root)
	}
	return nil
}

func (c compose) urls() URLs { return c.at }

func (c compose) stop(ctx context.Context) error { return downCompose(ctx, c.root) }

func (c compose) restartPostgres(ctx context.Context) error { return c.crash(ctx, "postgres") }
func (c compose) restartRabbitMQ(ctx context.Context) error { return c.crash(ctx, "rabbitmq") }

func (c compose) crash(ctx context.Context, service string) error {
	if err := composeRun(ctx, c.root, io.Discard, "kill", service); err != nil {
		return err
	}
	return composeRun(ctx, c.root, io.Discard, "up", "--wait", service)
}

func (c compose) rabbitmqctl(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	err := composeRun(ctx, c.root, &out, append([]string{"exec", "-T", "rabbitmq", "rabbitmqctl"}, args...)...)
	return out.String(), err
}
