// Which programs do the scenarios run? The real binaries, built once per run from this tree, as `make build` does.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// build compiles the three services into dir. The error carries the compiler's words.
func build(ctx context.Context, root, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", dir+string(os.PathSeparator),
		"./services/orders", "./services/relay", "./services/loyalty")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the services: %w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

// moduleRoot is the directory of go.mod, wherever below it the runner was started.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module (run this inside the repository): %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
