package main

// How is a service run as a black box, and what did it use of the machine?

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.com/outboxlab/scripts/blackbox"
)

// process is one running service.
type process struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{}

	mu   sync.Mutex
	url  string // of its HTTP listener, "" until it said so
	last string // line of its output, for error messages
}

// usage is what a process has used from its start to its end.
type usage struct {
	cpu    time.Duration
	memory float64 // the most that was resident, in MB; 0 where the system does not tell
}

// total is the most memory of all runs, and the CPU time of all together.
func total(runs []usage) (memory float64, cpu time.Duration) {
	for _, u := range runs {
		memory, cpu = max(memory, u.memory), cpu+u.cpu
	}
	return memory, cpu
}

const (
	readyWithin = 30 * time.Second
	exitWithin  = 30 * time.Second
)

var listening = regexp.MustCompile(`listening on (http://\S+)`)

// startProcess returns when the service is ready. If it does not become so, the process is returned with the error.
func startProcess(ctx context.Context, binary string, env []string) (*process, error) {
	p := &process{name: filepath.Base(binary), cmd: exec.Command(binary), ended: make(chan struct{})}
	p.cmd.Env = env
	p.cmd.SysProcAttr = blackbox.DieWithUs()
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stderr = p.cmd.Stdout
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.follow(output)
	return p, until(ctx, p.name+" ready", readyWithin, 5*time.Millisecond, func() (bool, error) {
		select {
		case <-p.ended:
			return false, fmt.Errorf("%s ended: %s", p.name, p.lastLine())
		default:
			return p.ready(ctx), nil
		}
	})
}

func (p *process) follow(output io.Reader) {
	defer close(p.ended)
	scanner := bufio.NewScanner(output)
	for scanner.Scan() {
		p.mu.Lock()
		p.last = scanner.Text()
		if match := listening.FindStringSubmatch(p.last); match != nil {
			p.url = match[1]
		}
		p.mu.Unlock()
	}
	_ = p.cmd.Wait() // how it ended is read from ProcessState
}

func (p *process) address() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.url
}

func (p *process) lastLine() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

var probe = &http.Client{Timeout: 2 * time.Second}

func (p *process) ready(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.address()+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := probe.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// stop asks the process to end, and tells what it has used.
func (p *process) stop(ctx context.Context) (usage, error) {
	used := usage{memory: p.peakMemory()}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return used, fmt.Errorf("%s: %w; it last said: %s", p.name, err, p.lastLine())
	}
	select {
	case <-p.ended:
	case <-ctx.Done():
		return used, context.Cause(ctx)
	case <-time.After(exitWithin):
		return used, fmt.Errorf("%s still runs after %v; it last said: %s", p.name, exitWithin, p.lastLine())
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return used, fmt.Errorf("%s ended with exit code %d; it last said: %s", p.name, code, p.lastLine())
	}
	used.cpu = p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
	return used, nil
}

// peakMemory reads Linux's high-water mark. The one in the exit status would be no good: it includes what this program
// itself had resident when it started the child.
func (p *process) peakMemory() float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	kilobytes, _, _ := strings.Cut(strings.TrimSpace(after), " ")
	n, _ := strconv.ParseFloat(kilobytes, 64)
	return n / 1024
}

// destroy ends a process that may have ended already.
func (p *process) destroy() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}
