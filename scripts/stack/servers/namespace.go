package servers

// How does a program run from the Debian root file system? In namespaces of its own, set up by namespace.sh, as an
// unprivileged user, with one directory of ours for its data.

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"example.com/outboxlab/pkg/printable"
)

//go:embed namespace.sh
var namespaceScript []byte

// inRoot is one program to run.
type inRoot struct {
	root       string // the Debian root file system
	data       string // the directory that appears at mountpoint
	mountpoint string
	user       string // of the root's /etc/passwd
	dieWithUs  bool
	command    []string
}

// start starts a server that writes to the log file and returns the first process of its namespaces.
func (p inRoot) start(log string) (process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return process{}, err
	}
	defer out.Close()

	cmd, err := p.build(context.Background())
	if err != nil {
		return process{}, err
	}
	cmd.Stdout, cmd.Stderr = out, out
	if _, err := startOnOwnThread(cmd); err != nil {
		return process{}, err
	}
	return describe(cmd.Process.Pid)
}

// run runs a short program to its end and returns what it printed; a failure's error holds the last lines of that.
func (p inRoot) run(ctx context.Context) (string, error) {
	cmd, err := p.build(ctx)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	done, err := startOnOwnThread(cmd)
	if err == nil {
		err = <-done
	}
	if err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", filepath.Base(p.command[0]), err, lastLines(out.String(), 5))
	}
	return out.String(), nil
}

// writeScript puts namespace.sh into the directory: a file and not `sh -c TEXT`, so that a list of processes stays readable.
// It is there whole or not at all, since the other server of the pair may be starting from it just now: a shell that
// meets an empty file ends at once, and has nothing to say.
func writeScript(dir string) (path string, err error) {
	file, err := os.CreateTemp(dir, "namespace-*.sh")
	if err != nil {
		return "", err
	}
	_, err = file.Write(unixLines(namespaceScript))
	path = filepath.Join(dir, "namespace.sh")
	if err := errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return path, os.Rename(file.Name(), path)
}

// unixLines takes out what a checkout with other line ends has put in: the shell takes a carriage return for a part of
// the last word.
func unixLines(script []byte) []byte { return bytes.ReplaceAll(script, []byte("\r\n"), []byte("\n")) }

// writeForServer writes a file that a server reads as its own user: root's umask must not keep it from that.
func writeForServer(path, text string) error {
	return errors.Join(os.WriteFile(path, []byte(text), 0o644), os.Chmod(path, 0o644))
}

func (p inRoot) build(ctx context.Context) (*exec.Cmd, error) {
	script, err := writeScript(filepath.Dir(p.data))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "sh", append([]string{script, p.root, p.data, p.mountpoint, p.user}, p.command...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}
	isolate(cmd, p.dieWithUs)
	return cmd, nil
}

// startOnOwnThread starts the command on a thread that lives as long as the command: the kernel's "die with your
// parent" means the thread, and Go may end an idle one. The channel gives the command's end.
func startOnOwnThread(cmd *exec.Cmd) (<-chan error, error) {
	started, done := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			done <- cmd.Wait()
		}
	}()
	err := <-started
	if errors.Is(err, syscall.EPERM) {
		err = fmt.Errorf("namespaces cannot be made here (a container without CAP_SYS_ADMIN?): %w", err)
	}
	return done, err
}

// makeData makes the data directory, if needed, and gives it to a user of the root file system.
func (p inRoot) makeData() error {
	uid, gid, err := lookUp(p.root, p.user)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(p.data, 0o750); err != nil {
		return err
	}
	return errors.Join(os.Chmod(p.data, 0o750), os.Chown(p.data, uid, gid))
}

// lookUp finds a user's numbers in the root's /etc/passwd: they are not those of the machine.
func lookUp(root, name string) (uid, gid int, err error) {
	passwd, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(passwd)) {
		field := strings.Split(line, ":")
		if field[0] != name || len(field) < 4 {
			continue
		}
		uid, uidErr := strconv.Atoi(field[2])
		gid, gidErr := strconv.Atoi(field[3])
		return uid, gid, errors.Join(uidErr, gidErr)
	}
	return 0, 0, fmt.Errorf("no user %s in %s/etc/passwd", name, root)
}

// lastLines returns the last n lines that say something, fit to be printed: a server's log repeats what clients sent.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return printable.Lines(strings.Join(lines[max(0, len(lines)-n):], "\n"))
}
