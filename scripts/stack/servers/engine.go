package servers

// Is there a Docker engine, and does it answer?

import (
	"context"
	"fmt"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// engineAnswers returns nil when a Docker engine answers within two seconds. It is found where the docker command finds
// it: DOCKER_HOST, or the usual sockets.
func engineAnswers(ctx context.Context) error {
	log.SetDefault(quiet{}) // the library greets every engine with ten lines
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	engine, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return fmt.Errorf("no Docker engine answers: %w", err)
	}
	return engine.Close()
}
