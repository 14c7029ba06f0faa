package byhand

// What is a terminal here? A bash that is fed line by line and goes on from block to block, so that variables and
// functions stay, and that leads a process group, so that ctrl-C reaches what runs in it.

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// done is printed by the shell when it has come to the end of a block.
const done = "\x1e"

type terminal struct {
	t     *testing.T
	cmd   *exec.Cmd
	typed io.WriteCloser

	expecting bool // the page has said what the newest block prints

	mu     sync.Mutex
	output string // since the newest block was typed, as far as the page has not yet spoken of it
	idle   bool   // the newest block has come to its end
}

// openTerminal starts a bash in dir that reads preamble first. It is gone, with all it runs, when the test ends.
func openTerminal(t *testing.T, dir, preamble string) *terminal {
	t.Helper()
	x := &terminal{t: t, cmd: exec.Command("bash"), idle: true}
	var err error
	if x.typed, err = x.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	x.cmd.Dir = dir
	// Not the user's home: their .psqlrc or .curlrc may change what is printed.
	x.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C", "NO_COLOR=1"}
	x.cmd.Stdout, x.cmd.Stderr = x, x
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = x.typed.Close()
		_ = syscall.Kill(-x.cmd.Process.Pid, syscall.SIGKILL) // an error means that all have ended
		_ = x.cmd.Wait()
	})
	x.send(preamble)
	return x
}

// Write takes what the shell and its programs print.
func (x *terminal) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.output += string(p)
	if before, after, found := strings.Cut(x.output, done); found {
		x.output, x.idle = before+after, true
	}
	return len(p), nil
}

// send types a block.
func (x *terminal) send(commands string) {
	x.t.Helper()
	x.mu.Lock()
	x.output, x.idle, x.expecting = "", false, false
	x.mu.Unlock()
	if _, err := fmt.Fprintf(x.typed, "%s\nprintf '\\036'\n", commands); err != nil {
		x.t.Fatalf("the shell has ended: %v; it printed:\n%s", err, x.unread())
	}
}

// interrupt presses ctrl-C.
func (x *terminal) interrupt() {
	x.t.Helper()
	if err := syscall.Kill(-x.cmd.Process.Pid, syscall.SIGINT); err != nil {
		x.t.Fatal(err)
	}
}

func (x *terminal) unread() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.output
}

func (x *terminal) finished() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.idle
}

// read says that the page has spoken of the output up to here, if that is still all there is.
func (x *terminal) read(output string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.output, x.expecting = strings.TrimPrefix(x.output, output), true
}
