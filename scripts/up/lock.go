package main

// Is another `up` running, and how is it ended? It holds a lock on a file with its process id in
// it. The lock, not the number, says that it runs: the kernel lets go of it however a process ends.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"
)

const (
	// lockFile is not in .stack/, which goes away with the servers.
	lockFile = ".up.pid"
	// stopPatience is how long --stop waits; services have their own, shorter grace time.
	stopPatience = 60 * time.Second
)

type lock struct{ file *os.File }

// takeLock fails when another process has it.
func takeLock(path string) (*lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := tryLock(file); err != nil {
		pid := readPID(file)
		return nil, errors.Join(fmt.Errorf("the services run already, in process %d (`make down` ends them)", pid), file.Close())
	}
	if err := file.Truncate(0); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if _, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &lock{file}, nil
}

// release leaves the file: removing it could take away the lock of a successor.
func (l *lock) release() { _ = l.file.Close() }

// stopOther asks the process that holds the lock to end, and returns when it has.
func stopOther(ctx context.Context, path string, stdout io.Writer) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if tryLock(file) == nil {
		return nil // nobody had it
	}
	pid := readPID(file)
	if pid <= 1 {
		return fmt.Errorf("%s is locked, and tells no process id", path)
	}
	fmt.Fprintf(stdout, "[up] ending the services of process %d\n", pid)
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("end process %d: %w", pid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	for tryLock(file) != nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d does not end: %w", pid, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

func tryLock(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// readPID returns 0 when the file holds no number.
func readPID(file *os.File) int {
	content := make([]byte, 16)
	n, _ := file.ReadAt(content, 0)
	pid, _ := strconv.Atoi(string(bytes.TrimSpace(content[:n])))
	return pid
}
