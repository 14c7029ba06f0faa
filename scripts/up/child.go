package main

// How is one service started, watched and ended?

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// childGrace is longer than a service's own grace time, so that a kill means it is stuck.
	childGrace = 30 * time.Second
	// readyPatience is how long a service may take until it is ready before the greeting goes on without it.
	readyPatience = 20 * time.Second
)

var listening = regexp.MustCompile(`listening on (http://[^\s"]+)`)

// child is one process of a service.
type child struct {
	name  string
	cmd   *exec.Cmd
	url   atomic.Value  // string, once its log has told where it listens
	ended chan struct{} // closed when the process and its output are at their end
	asked atomic.Bool   // we asked it to end
}

// startChild runs bin/NAME with exactly these variables. Each service is in a process group of its
// own: ctrl-C is for this program, which passes it on as one SIGTERM, since a second signal would
// end a service at once.
func startChild(name string, environment []string, t *transcript) (*child, error) {
	c := &child{name: name, ended: make(chan struct{})}
	output := &voice{transcript: t, speaker: name, hear: func(line string) {
		if match := listening.FindStringSubmatch(line); match != nil {
			c.url.Store(match[1])
		}
	}}
	c.cmd = exec.Command("bin/" + name)
	c.cmd.Env = environment
	c.cmd.Stdout, c.cmd.Stderr = output, output
	c.cmd.SysProcAttr = attributes()
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w (`make build` makes the binaries)", name, err)
	}
	go func() {
		defer close(c.ended)
		_ = c.cmd.Wait() // how it ended is read from ProcessState
	}()
	return c, nil
}

// address is where the service listens, "" while unknown.
func (c *child) address() string {
	url, _ := c.url.Load().(string)
	return url
}

// awaitReady returns when /readyz says yes, the process ends, or patience does.
func (c *child) awaitReady(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	for !c.ready(ctx) {
		select {
		case <-c.ended:
			return
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (c *child) ready(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.address()+"/readyz", nil)
	if err != nil || c.address() == "" {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// end asks the process to stop, waits, and kills it when it does not: then it says so.
func (c *child) end() (killed bool) {
	c.asked.Store(true)
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // an error means it has ended already
	select {
	case <-c.ended:
		return false
	case <-time.After(childGrace):
		_ = c.cmd.Process.Kill()
		<-c.ended
		return true
	}
}

// running tells whether the process has not ended yet.
func (c *child) running() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// epitaph says how it ended: "exit code 1", "signal: killed".
func (c *child) epitaph() string {
	state := c.cmd.ProcessState
	if state.Exited() {
		return fmt.Sprintf("exit code %d", state.ExitCode())
	}
	return state.String()
}
