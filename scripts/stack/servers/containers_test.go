package servers

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/jackc/pgx/v5"
	"github.com/moby/moby/client"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/testcontainers/testcontainers-go"

	"example.com/outboxlab/scripts/wait"
)

// A pair in containers answers, keeps its ports and what was committed through a crash of each server, and leaves
// nothing behind.
func TestContainersSurviveCrashesAndLeaveNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*wait.Limit)
	defer cancel()
	if err := engineAnswers(ctx); err != nil {
		t.Skipf("needs a Docker engine: %v", err)
	}
	if err := haveImages(ctx, t.Output(), privateImages()...); err != nil {
		t.Skipf("needs container images that are here or can be pulled: %v", err)
	}

	started, err := startContainers(ctx, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	c := started.(*containers)
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			if err := c.stop(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})

	writeRow(ctx, t, c.at.Database)
	publish(ctx, t, c.at.AMQP)
	if err := c.restartPostgres(ctx); err != nil {
		t.Fatalf("restart PostgreSQL: %v", err)
	}
	if err := c.restartRabbitMQ(ctx); err != nil {
		t.Fatalf("restart RabbitMQ: %v", err)
	}
	wantRow(ctx, t, c.at.Database)
	wantMessage(ctx, t, c.at.AMQP)

	queues, err := c.rabbitmqctl(ctx, "--quiet", "list_queues", "name", "--no-table-headers")
	if err != nil || strings.TrimSpace(queues) != "kept" {
		t.Errorf("rabbitmqctl list_queues: %q, %v", queues, err)
	}
	if _, err := c.rabbitmqctl(ctx, "no_such_command"); err == nil {
		t.Error("rabbitmqctl hides that a command failed")
	}

	ids := []string{c.postgres.GetContainerID(), c.rabbitmq.GetContainerID()}
	stopped = true
	if err := c.stop(ctx); err != nil {
		t.Fatalf("stop: %v", err)
	}
	wantGone(ctx, t, ids)
}

// An image that is nowhere is an error soon, so that the caller can start native servers instead.
func TestContainersWithoutImageFailSoon(t *testing.T) {
	if err := engineAnswers(t.Context()); err != nil {
		t.Skipf("needs a Docker engine: %v", err)
	}
	t.Setenv("POSTGRES_IMAGE", "localhost:1/outboxlab/no-such-image")
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	_, err := startContainers(ctx, io.Discard)
	if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "no-such-image") {
		t.Errorf("got %v (context: %v), want an error naming the image, in time", err, ctx.Err())
	}
}

func writeRow(ctx context.Context, t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, `CREATE TABLE kept AS SELECT 'row' AS what`); err != nil {
		t.Fatal(err)
	}
}

func wantRow(ctx context.Context, t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var what string
	if err := conn.QueryRow(ctx, `SELECT what FROM kept`).Scan(&what); err != nil || what != "row" {
		t.Errorf("row after the crash: %q, %v", what, err)
	}
}

// publish leaves one confirmed, persistent message in a classic queue. Not in a quorum queue: RabbitMQ 4.3.6 writes the
// name of a new one to disk up to a second after its declaration, and a crash before that loses what it holds.
func publish(ctx context.Context, t *testing.T, url string) {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := channel.QueueDeclare("kept", true, false, false, false, amqp.Table{"x-queue-type": "classic"}); err != nil {
		t.Fatal(err)
	}
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	confirmation, err := channel.PublishWithDeferredConfirmWithContext(ctx, "", "kept", true, false, amqp.Publishing{DeliveryMode: amqp.Persistent})
	if err != nil {
		t.Fatal(err)
	}
	if confirmed, err := confirmation.WaitContext(ctx); err != nil || !confirmed {
		t.Fatalf("publish: confirmed %v, %v", confirmed, err)
	}
}

func wantMessage(ctx context.Context, t *testing.T, url string) {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	deliveries, err := channel.ConsumeWithContext(ctx, "kept", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case _, open := <-deliveries:
		if !open {
			t.Error("the broker ended the consumer before it delivered the message from before the crash")
		}
	case <-time.After(wait.Limit):
		t.Errorf("the message from before the crash was not delivered within %v", wait.Limit)
	}
}

func wantGone(ctx context.Context, t *testing.T, ids []string) {
	t.Helper()
	engine, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	for _, id := range ids {
		if _, err := engine.ContainerInspect(ctx, id, client.ContainerInspectOptions{}); !errdefs.IsNotFound(err) {
			t.Errorf("container %s is still there (%v)", id, err)
		}
	}
}
