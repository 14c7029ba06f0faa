package servers

// How is a process that we started found again later, and ended, without ever touching another one?

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// process is the first process of a server's namespaces. Its start time tells it from a later process to which the
// kernel gave the same number.
type process struct {
	PID     int    `json:"pid"`
	Started string `json:"started"` // boot id and clock ticks since boot
}

// describe looks up a process that is known to run.
func describe(pid int) (process, error) {
	started, err := startTime(pid)
	if err != nil {
		return process{}, err
	}
	return process{pid, started}, nil
}

// alive reports whether the very process still runs; a zombie does not.
func (p process) alive() bool {
	if p.PID <= 1 {
		return false
	}
	started, err := startTime(p.PID)
	return err == nil && started == p.Started
}

// end asks the process to stop, kills it after the grace time (0 = at once), and returns when it is gone. Everything in
// its namespaces is gone then, too: the kernel sees to that.
func (p process) end(ctx context.Context, grace time.Duration) error {
	if !p.alive() {
		return nil
	}
	if grace > 0 {
		if err := p.signal(syscall.SIGTERM); err != nil {
			return err
		}
		if p.goneWithin(ctx, grace) {
			return nil
		}
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	if !p.goneWithin(context.WithoutCancel(ctx), 10*time.Second) {
		return fmt.Errorf("process %d does not end", p.PID)
	}
	return nil
}

func (p process) signal(s syscall.Signal) error {
	if err := syscall.Kill(p.PID, s); err != nil && p.alive() {
		return fmt.Errorf("signal to process %d: %w", p.PID, err)
	}
	return nil
}

func (p process) goneWithin(ctx context.Context, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for p.alive() {
		select {
		case <-ctx.Done():
			return !p.alive()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return true
}

// startTime reads field 22 of /proc/PID/stat. The command's name before it may hold spaces and brackets, so fields are
// counted from the last bracket.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	text := string(stat)
	fields := strings.Fields(text[strings.LastIndex(text, ")")+1:]) // fields[0] is field 3, the state
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return strings.TrimSpace(string(boot)) + "/" + fields[19], nil
}
