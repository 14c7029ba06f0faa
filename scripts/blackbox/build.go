// Package blackbox answers: which programs do scenarios and benchmarks run? The real binaries, built once per run from
// this tree, as `make build` does, and each in a process of its own.
package blackbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Build compiles the three services into dir. The error carries the compiler's words.
func Build(ctx context.Context, root, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", dir+string(os.PathSeparator),
		"./services/orders", "./services/relay", "./services/loyalty")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the services: %w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

// ModuleRoot is the directory of go.mod, wherever below it the program was started.
func ModuleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module (run this inside the repository): %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
