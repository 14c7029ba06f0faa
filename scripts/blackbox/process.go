package blackbox

// How is a service run as a black box? One process: the real binary, its own environment, its output line by line, its
// exit code, and the signals that end it.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.com/outboxlab/scripts/wait"
)

// Process is one running (or ended) service.
type Process struct {
	Name  string          // for people
	Ended <-chan struct{} // closed once the process is gone and all its output is read

	cmd *exec.Cmd

	mu    sync.Mutex
	lines []string
	url   string // of its HTTP listener, "" until it said so
}

// listening is the line by which a service tells its address; the port is the system's choice.
var listening = regexp.MustCompile(`listening on (http://\S+)`)

// Start starts a binary with exactly the given environment; every line it prints goes to tell as it comes.
func Start(name, binary string, args, env []string, tell func(line string)) (*Process, error) {
	ended := make(chan struct{})
	p := &Process{Name: name, Ended: ended}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd = exec.Command(binary, args...)
	p.cmd.Env = env
	p.cmd.Stdout, p.cmd.Stderr = write, write
	p.cmd.SysProcAttr = DieWithUs()
	err = p.cmd.Start()
	_ = write.Close() // the child has its own copy; ours would keep the pipe from ending
	if err != nil {
		_ = read.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go p.follow(read, tell, ended)
	return p, nil
}

// follow collects the output until it ends, then the exit code.
func (p *Process) follow(read *os.File, tell func(string), ended chan<- struct{}) {
	defer close(ended)
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

// Running reports whether the process has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.Ended:
		return false
	default:
		return true
	}
}

// Address is the base URL of its listener, "" while it has not told one.
func (p *Process) Address() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.url
}

// Printed counts the output lines that contain text.
func (p *Process) Printed(text string) int {
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

// LastLine is the last thing the process said, for error messages.
func (p *Process) LastLine() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lines) == 0 {
		return "it printed nothing"
	}
	return p.lines[len(p.lines)-1]
}

// Signal sends a signal; that the process is gone already is no error.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%v to %s: %w", sig, p.Name, err)
	}
	return nil
}

// Ready tells whether /readyz answers 200.
func (p *Process) Ready(ctx context.Context) bool {
	if p.Address() == "" {
		return false
	}
	page, err := Get(ctx, p.Address()+"/readyz")
	if err == nil {
		_ = page.Close()
	}
	return err == nil
}

var client = &http.Client{Timeout: 2 * time.Second}

// Get returns the body of a page that answers 200.
func Get(ctx context.Context, address string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, fmt.Errorf("GET %s answered %s", request.URL.Path, response.Status)
	}
	return response.Body, nil
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// State is how it ended and what it used; valid once Ended is closed.
func (p *Process) State() *os.ProcessState { return p.cmd.ProcessState }

// MustExit waits for the end, after SIGTERM, of a command, or at a crash point, and is satisfied only with the given exit code; a signal's is -1.
func (p *Process) MustExit(ctx context.Context, code int) error {
	timer := time.NewTimer(wait.Limit)
	defer timer.Stop()
	select {
	case <-p.Ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return fmt.Errorf("%s still runs after %v; it last said: %s", p.Name, wait.Limit, p.LastLine())
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		return fmt.Errorf("%s ended with exit code %d, expected %d; it last said: %s", p.Name, got, code, p.LastLine())
	}
	return nil
}

// Destroy ends the process by SIGKILL, frozen or not, and waits until it is gone.
func (p *Process) Destroy() {
	_ = p.Signal(syscall.SIGKILL) // an error means that it is gone already
	<-p.Ended
}
