package servers

// Where is the Debian root file system with both servers, and who builds it when it is not there yet?

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// RootFS returns the path of the root file system and builds it first if needed: about a minute and 350 MB, once for
// this machine and recipe. Two processes that need it at once build it once.
func RootFS(ctx context.Context, progress io.Writer) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	recipe := sha256.Sum256([]byte(strings.Join(debianRecipe(), "\n")))
	root := filepath.Join(cache, fmt.Sprintf("debian-%s-%s-%x", debianSuite, runtime.GOARCH, recipe[:4]))
	if isDir(root) {
		return root, nil
	}

	file, err := os.Open(cache)
	if err != nil {
		return "", err
	}
	unlock, err := lockFile(ctx, file, progress)
	if err != nil {
		return "", err
	}
	defer unlock()
	if isDir(root) { // another process has built it while we waited
		return root, nil
	}
	if err := buildAside(ctx, root, progress); err != nil {
		return "", fmt.Errorf("building the root file system: %w", err)
	}
	return root, nil
}

// buildAside builds under another name and renames at the end, so that an interrupted build is never taken for a root.
func buildAside(ctx context.Context, root string, progress io.Writer) error {
	aside := root + ".building"
	if err := removeTree(aside); err != nil {
		return err
	}
	began := time.Now()
	fmt.Fprintln(progress, "building a Debian root file system with PostgreSQL and RabbitMQ, once: about a minute, 350 MB in", filepath.Dir(root))
	if err := buildDebian(ctx, aside, progress); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err() // the rest is how mmdebstrap was killed
		}
		return errors.Join(err, removeTree(aside))
	}
	// The umask may have taken what the servers' users need to look into it.
	if err := os.Chmod(aside, 0o755); err != nil {
		return err
	}
	if err := os.Rename(aside, root); err != nil {
		return err
	}
	fmt.Fprintf(progress, "built in %s: %s\n", time.Since(began).Round(time.Second), root)
	return nil
}

func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place for a cache: %w", err)
	}
	dir := filepath.Join(base, "outboxlab")
	return dir, os.MkdirAll(dir, 0o755)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// lockFile waits until no other process holds the lock on the file (or directory) and closes the file to give it back.
// The lock is the kernel's, so one left by a killed process is free.
func lockFile(ctx context.Context, file *os.File, progress io.Writer) (unlock func() error, err error) {
	for waiting := false; ; waiting = true {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return file.Close, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(err, file.Close())
		}
		if !waiting {
			fmt.Fprintln(progress, "waiting for another process that works on", file.Name())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), file.Close())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// removeTree removes a directory, but never one with something mounted in it: a /dev left mounted by a killed build
// would be emptied, too.
func removeTree(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err == nil && strings.Contains(string(mounts), " "+dir+"/") {
		return fmt.Errorf("something is mounted in %s; unmount it (see `mount`), then try again", dir)
	}
	return os.RemoveAll(dir)
}
