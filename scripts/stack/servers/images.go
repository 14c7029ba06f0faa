package servers

// Which container images are used, and are they on this machine or to be had in reasonable time?

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// pullStall is how long a pull may go without any progress. A slow download goes on; a registry that nobody can reach
// is given up, so that another way can be tried.
const pullStall = 20 * time.Second

// postgresImage and rabbitmqImage are the same choice as in compose.yaml.
func postgresImage() string { return cmp.Or(os.Getenv("POSTGRES_IMAGE"), "postgres:18-alpine") }
func rabbitmqImage() string {
	return cmp.Or(os.Getenv("RABBITMQ_IMAGE"), "rabbitmq:4.3-management-alpine")
}

// haveImages returns nil when all images are on the engine, pulling those that are missing. testcontainers-go would pull
// by itself, but keeps trying for a quarter of an hour where there is no registry.
func haveImages(ctx context.Context, progress io.Writer, images ...string) error {
	engine, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return fmt.Errorf("no Docker engine answers: %w", err)
	}
	defer engine.Close()

	for _, image := range images {
		_, err := engine.ImageInspect(ctx, image)
		if errdefs.IsNotFound(err) {
			fmt.Fprintf(progress, "pulling %s\n", image)
			err = pull(ctx, engine.Client, image)
		}
		if err != nil {
			return fmt.Errorf("image %s: %w", image, err)
		}
	}
	return nil
}

// pull downloads one image, as long as the engine reports progress.
func pull(ctx context.Context, engine *client.Client, image string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(pullStall, func() { cancel(fmt.Errorf("no progress of the download for %v", pullStall)) })
	defer stalled.Stop()

	download, err := engine.ImagePull(ctx, image, client.ImagePullOptions{})
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	defer download.Close()
	for message, err := range download.JSONMessages(ctx) {
		if err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		if message.Error != nil {
			return message.Error
		}
		stalled.Reset(pullStall)
	}
	return context.Cause(ctx)
}

// quiet keeps the library's own chatter out of the narration. What fails is returned as an error, too.
type quiet struct{}

// Printf drops the line.
func (quiet) Printf(string, ...any) {}

// The library chats from its first contact with the engine on, wherever in this package that is.
func init() { log.SetDefault(quiet{}) }
