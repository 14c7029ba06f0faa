package servers

// How does the main stack run in containers? As two services of compose.yaml, brought up by docker compose.

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// compose is the main stack in containers. It is only ever brought up and down as a whole.
type compose struct {
	root    string // of the repository, where compose.yaml is
	project string // compose's name for these containers and their data
	ports   ports
	at      URLs
}

// upCompose brings the two services up and returns when compose calls them healthy and both answer here.
func upCompose(ctx context.Context, root string, old *record, progress io.Writer) (runner, error) {
	c := compose{root: root, project: projectOf(root)}
	if old != nil {
		c = recordedCompose(root, old)
	}
	if err := c.run(ctx, io.Discard, "version"); err != nil {
		return nil, fmt.Errorf("the Docker engine has no compose: %w", err)
	}
	if err := haveImages(ctx, progress, postgresImage(), rabbitmqImage()); err != nil {
		return nil, err
	}
	if old != nil { // its containers may hold their ports, so nobody looks whether those are free
		given, err := givenPorts()
		if err != nil {
			return nil, err
		}
		for _, f := range fixed {
			*f.in(&c.ports) = cmp.Or(*f.in(&given), *f.in(&c.ports), f.standard)
		}
		return c.up(ctx, progress)
	}
	var started runner
	err := onFreePorts(ports{}, progress, func(chosen ports) (err error) {
		c.ports = chosen
		started, err = c.up(ctx, progress)
		return err
	})
	return started, err
}

func (c compose) up(ctx context.Context, progress io.Writer) (runner, error) {
	fmt.Fprintln(progress, "starting PostgreSQL and RabbitMQ with docker compose, project", c.project)
	c.at = c.ports.urlsWith(cmp.Or(os.Getenv("POSTGRES_PASSWORD"), password), cmp.Or(os.Getenv("RABBITMQ_PASSWORD"), password))
	err := c.run(ctx, io.Discard, "up", "--wait", "postgres", "rabbitmq")
	if err == nil {
		_, err = check(ctx, c.at)
	}
	if err != nil { // half a pair must not hold the ports that another way needs; the data stays
		return nil, errors.Join(err, c.run(context.WithoutCancel(ctx), io.Discard, "rm", "--stop", "--force", "postgres", "rabbitmq"))
	}
	return c, nil
}

// projectOf names the containers of the clone at root, the same at each call. Under one name for all, a second clone on the same
// engine would take the first one's containers for its own, and `down` would remove their data.
func projectOf(root string) string {
	if resolved, err := filepath.EvalSymlinks(root); err == nil {
		root = resolved
	}
	sum := sha256.Sum256([]byte(root))
	return fmt.Sprintf("outboxlab-%x", sum[:4])
}

// recordedCompose is the stack that the record names. One written before clones had names of their own holds none.
func recordedCompose(root string, old *record) compose {
	c := compose{root: root, project: "outboxlab", at: old.URLs}
	if old.Compose != nil {
		c.project, c.ports = old.Compose.Project, old.Compose.Ports
	}
	return c
}

// run runs docker compose on this project, whatever COMPOSE_PROJECT_NAME, COMPOSE_FILE and the like say in the user's shell: they
// are meant for another system, and `down` removes data.
func (c compose) run(ctx context.Context, to io.Writer, args ...string) error {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "docker", append([]string{"compose", "--project-name", c.project}, args...)...)
	cmd.Dir = c.root
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "COMPOSE_") })
	for _, f := range fixed {
		if port := *f.in(&c.ports); port != 0 {
			cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", f.variable, port))
		}
	}
	cmd.Stdout = io.MultiWriter(&out, to)
	cmd.Stderr = cmd.Stdout
	if err := cmd.Run(); err != nil {
		return explain(fmt.Errorf("docker compose %s: %w: %s", args[0], err, lastLines(out.String(), 8)), c.root)
	}
	return nil
}

func (c compose) urls() URLs { return c.at }

// stop removes the containers with their data.
func (c compose) stop(ctx context.Context) error { return c.run(ctx, io.Discard, "down", "--volumes") }

func (c compose) restartPostgres(ctx context.Context) error { return c.crash(ctx, "postgres") }
func (c compose) restartRabbitMQ(ctx context.Context) error { return c.crash(ctx, "rabbitmq") }

func (c compose) crash(ctx context.Context, service string) error {
	if err := c.run(ctx, io.Discard, "kill", service); err != nil {
		return err
	}
	return c.run(ctx, io.Discard, "up", "--wait", service)
}

func (c compose) rabbitmqctl(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	err := c.run(ctx, &out, append([]string{"exec", "-T", "rabbitmq", "rabbitmqctl"}, args...)...)
	return out.String(), err
}
