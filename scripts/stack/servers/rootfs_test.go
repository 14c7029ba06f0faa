package servers

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A build that fails, here without a mirror, says what to do and leaves nothing that the next one could take for a root.
func TestFailedBuildLeavesNothing(t *testing.T) {
	requireNative(t)
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("STACK_DEBIAN_MIRROR", "http://127.0.0.1:1/debian")

	_, err := RootFS(withLimit(t), t.Output())
	if err == nil || !strings.Contains(err.Error(), "a download failed") {
		t.Errorf("got %v, want an error that says that the download failed", err)
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "outboxlab", "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Two processes never build, or change a stack, at the same time; the second one says that it waits.
func TestLockFileWaits(t *testing.T) {
	dir := t.TempDir()
	unlock := mustLock(t, dir)
	waiting, interrupt := context.WithCancel(t.Context())
	told := ""
	_, err := lockFile(waiting, mustOpen(t, dir), writerFunc(func(p []byte) (int, error) {
		told += string(p)
		interrupt() // or it would wait for ever
		return len(p), nil
	}))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("second lock: %v, want it to wait until it was interrupted", err)
	}
	if !strings.Contains(told, dir) {
		t.Errorf("said %q while waiting", told)
	}
	if err := errors.Join(unlock(), mustLock(t, dir)()); err != nil {
		t.Error(err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func mustOpen(t *testing.T, dir string) *os.File {
	t.Helper()
	file, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func mustLock(t *testing.T, dir string) (unlock func() error) {
	t.Helper()
	unlock, err := lockFile(t.Context(), mustOpen(t, dir), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return unlock
}
