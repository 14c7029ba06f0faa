// Command gotest runs `go test` and says when a package begins, so that minutes in which the failure stories play do not
// look like a hang. What a package prints comes in one piece, as with go test itself.
//
//	go run ./scripts/gotest [--compile] FLAG … PACKAGE …
//
// The flags and packages are those of go test. With --compile nothing is run: the packages are compiled, and so are the
// programs that tests build, so that this does not compete with the tests themselves.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}

// run returns the exit code, which is that of go test.
func run(ctx context.Context, args []string, stdout io.Writer) int {
	if len(args) > 0 && args[0] == "--compile" {
		return compile(ctx, args[1:], stdout)
	}
	return goTest(ctx, args, &report{out: stdout, began: "begin", verbose: isVerbose(args)})
}

// compile builds every test binary, with the flags that it will be run with, and runs no test in it.
func compile(ctx context.Context, args []string, stdout io.Writer) int {
	build := exec.CommandContext(ctx, "go", "build", "./services/...", "./migrations")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as `make build` and the tests do
	build.Stdout, build.Stderr = stdout, os.Stderr
	if err := build.Run(); err != nil {
		return exitCode(err)
	}
	return goTest(ctx, append(slices.Clone(args), "-run=^$", "-bench=^$"), &report{out: stdout, ended: "compiled"})
}

func isVerbose(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return a == "-v" || a == "-v=true" || a == "-test.v" })
}

// goTest runs go test, and hands what it reports to r.
func goTest(ctx context.Context, args []string, r *report) int {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		return 1
	}
	err = r.read(events)
	return exitCode(errors.Join(err, cmd.Wait()))
}

func exitCode(err error) int {
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() > 0 {
		return ended.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		return 1
	}
	return 0
}
