package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"example.com/outboxlab/scripts/wait"
)

// TestMain lets the test program be that other process: with HOLD_LOCK set it only holds the lock,
// until it is asked to end.
func TestMain(m *testing.M) {
	if path := os.Getenv("HOLD_LOCK"); path != "" {
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		if _, err := takeLock(path); err != nil {
			panic(err)
		}
		fmt.Println("held")
		fmt.Println(<-asked)
		os.Exit(0)
	}
	m.Run()
}

func TestOnlyOneHoldsTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "up.pid")
	first, err := takeLock(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = takeLock(path)
	if want := fmt.Sprintf("in process %d", os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("second lock: %v, want an error with %q", err, want)
	}
	first.release()
	second, err := takeLock(path)
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	second.release()
}

func TestStopWithNobodyRunningDoesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "up.pid")
	if err := stopOther(t.Context(), path, io.Discard); err != nil {
		t.Errorf("no file: %v", err)
	}
	// A number left behind by a dead process may be anybody's by now: it must not be signalled.
	if err := os.WriteFile(path, fmt.Append(nil, os.Getpid()), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := stopOther(t.Context(), path, io.Discard); err != nil {
		t.Errorf("file without a lock: %v", err)
	}
}

func TestStopEndsTheHolderAndWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "up.pid")
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), "HOLD_LOCK="+path)
	output, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(output, make([]byte, len("held\n"))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if err := stopOther(ctx, path, io.Discard); err != nil {
		t.Fatal(err)
	}
	last, err := io.ReadAll(output)
	if err != nil || string(last) != "terminated\n" {
		t.Errorf("the holder heard %q, %v; want SIGTERM", last, err)
	}
	if err := holder.Wait(); err != nil {
		t.Errorf("the holder did not end by itself: %v", err)
	}
}
