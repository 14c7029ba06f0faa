package main

// A service runs as a process of its own, and it is known at its end what it has used of the machine.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"example.com/outboxlab/scripts/blackbox"
)

// process is one running service.
type process struct{ *blackbox.Process }

// usage is what a process has used from its start to its end.
type usage struct {
	cpu    time.Duration
	memory float64 // the most that was resident, in MB; 0 where the system does not tell
}

// readings are that usage for n things.
func (u usage) readings(n int, things string) []reading {
	return []reading{
		{what: ": resident memory", value: u.memory, unit: "MB", atMost: 50},
		{what: ": CPU for 1,000 " + things, value: u.cpu.Seconds() * 1000 * 1000 / float64(n), unit: "ms"},
	}
}

const readyWithin = 30 * time.Second

// startProcess returns when the service is ready. If it does not become so, the process is returned with the error.
func startProcess(ctx context.Context, binary string, env []string) (*process, error) {
	started, err := blackbox.Start(filepath.Base(binary), binary, nil, env, func(string) {})
	if err != nil {
		return nil, err
	}
	return &process{started}, until(ctx, started.Name+" ready", readyWithin, 5*time.Millisecond, func() (bool, error) {
		if !started.Running() {
			return false, fmt.Errorf("%s ended: %s", started.Name, started.LastLine())
		}
		return started.Ready(ctx), nil
	})
}

// stop asks the process to end, and tells what it has used.
func (p *process) stop(ctx context.Context) (usage, error) {
	used := usage{memory: p.peakMemory()}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return used, err
	}
	if err := p.MustExit(ctx, 0); err != nil {
		return used, err
	}
	used.cpu = p.State().UserTime() + p.State().SystemTime()
	return used, nil
}

// peakMemory reads Linux's high-water mark. The one in the exit status would be no good: it includes what this program
// itself had resident when it started the child.
func (p *process) peakMemory() float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	kilobytes, _, _ := strings.Cut(strings.TrimSpace(after), " ")
	n, _ := strconv.ParseFloat(kilobytes, 64)
	return n / 1024
}
