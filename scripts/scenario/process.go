// How does a scenario run a service as a black box? One process: the real binary, its own environment, its
// output line by line, its exit code, and the signals that end it.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.com/outboxlab/scripts/blackbox"
)

// process is one running (or ended) service.
type process struct {
	alias   string // what the script calls it
	service string // which binary it is
	cmd     *exec.Cmd
	ended   chan struct{} // closed once the process is gone and all its output is read

	mu    sync.Mutex
	lines []string
	url   string // of its HTTP listener, "" until it said so
}

// listening is the line by which a service tells its address; the port is the system's choice.
var listening = regexp.MustCompile(`listening on (http://\S+)`)

// launch starts a binary with exactly the given environment; every line it prints goes to tell as it comes.
func launch(alias, service, binary string, args, env []string, tell func(line string)) (*process, error) {
	p := &process{alias: alias, service: service, ended: make(chan struct{})}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd = exec.Command(binary, args...)
	p.cmd.Env = env
	p.cmd.Stdout, p.cmd.Stderr = write, write
	p.cmd.SysProcAttr = blackbox.DieWithUs()
	err = p.cmd.Start()
	_ = write.Close() // the child has its own copy; ours would keep the pipe from ending
	if err != nil {
		_ = read.Close()
		return nil, fmt.Errorf("start %s: %w", alias, err)
	}
	go p.follow(read, tell)
	return p, nil
}

// follow collects the output until it ends, then the exit code.
func (p *process) follow(read *os.File, tell func(string)) {
	defer close(p.ended)
	scanner := bufio.NewScanner(read)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		text := scanner.Text()
		p.mu.Lock()
		p.lines = append(p.lines, text)
		if match := listening.FindStringSubmatch(text); match != nil && p.url == "" {
			p.url = match[1]
		}
		p.mu.Unlock()
		tell(text)
	}
	_ = read.Close()
	_ = p.cmd.Wait() // what matters of the error is the exit code, which ProcessState keeps
}

// running reports whether the process has not ended yet.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// address is the base URL of its listener, "" while it has not told one.
func (p *process) address() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.url
}

// printed counts the output lines that contain text.
func (p *process) printed(text string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, l := range p.lines {
		if strings.Contains(l, text) {
			n++
		}
	}
	return n
}

// lastLine is the last thing the process said, for error messages.
func (p *process) lastLine() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lines) == 0 {
		return "it printed nothing"
	}
	return p.lines[len(p.lines)-1]
}

func (p *process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%v to %s: %w", sig, p.alias, err)
	}
	return nil
}

// exitWithin is how long a service may take to end after SIGTERM, a command to do its work, a crash point to be reached.
const exitWithin = 20 * time.Second

// mustExit waits for the end and is satisfied only with the given exit code; a signal's is -1.
func (p *process) mustExit(ctx context.Context, code int) error {
	timer := time.NewTimer(exitWithin)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return fmt.Errorf("%s still runs after %v; it last said: %s", p.alias, exitWithin, p.lastLine())
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		return fmt.Errorf("%s ended with exit code %d, expected %d; it last said: %s", p.alias, got, code, p.lastLine())
	}
	return nil
}

// destroy ends the process by SIGKILL, frozen or not, and waits until it is gone.
func (p *process) destroy() {
	_ = p.signal(syscall.SIGKILL) // an error means that it is gone already
	<-p.ended
}
