package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/outboxlab/scripts/wait"
)

// requireNative fails the test where native servers should run and cannot. It skips only where other servers are meant
// to be used: those that STACK names, or containers, which have a test of their own.
func requireNative(t *testing.T) {
	t.Helper()
	if way := os.Getenv("STACK"); way != "" && way != string(Native) {
		t.Skipf("STACK=%s: no native servers wanted", way)
	}
	noNative := nativePossible()
	if noNative == nil {
		return
	}
	noDocker := engineAnswers(t.Context())
	if noDocker == nil {
		t.Skipf("containers are used on this machine, native servers are not possible: %v", noNative)
	}
	t.Fatal(noWayError(noDocker, noNative))
}

// A private pair answers, keeps its ports and what was committed through a crash of each server, and leaves neither a
// process nor a file.
func TestNativePairSurvivesCrashesAndLeavesNothing(t *testing.T) {
	t.Parallel()
	requireNative(t)
	ctx := withLimit(t)
	started, err := startPrivateNative(ctx, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	pair := started.(*native)
	t.Cleanup(func() { _ = pair.stop(context.Background()) })

	writeRow(ctx, t, pair.urls().Database)
	publish(ctx, t, pair.urls().AMQP)
	// RabbitMQ writes a new quorum queue's name to disk up to a second late, and without it starts with an empty queue.
	if _, err := pair.rabbitmqctl(ctx, "eval", "[ok = dets:sync(Table) || Table <- dets:all()]."); err != nil {
		t.Fatal(err)
	}
	before := pair.ports
	if err := pair.restartPostgres(ctx); err != nil {
		t.Fatalf("restart PostgreSQL: %v", err)
	}
	if err := pair.restartRabbitMQ(ctx); err != nil {
		t.Fatalf("restart RabbitMQ: %v", err)
	}
	if pair.ports != before {
		t.Errorf("ports after the restarts: %v, want %v", pair.ports, before)
	}
	wantRow(ctx, t, pair.urls().Database)
	wantMessage(ctx, t, pair.urls().AMQP)
	queues, err := pair.rabbitmqctl(ctx, "--quiet", "list_queues", "name", "--no-table-headers")
	if err != nil || strings.TrimSpace(queues) != "kept" {
		t.Errorf("queues after the crash: %q, %v; want the one called kept", queues, err)
	}
	if _, err := pair.rabbitmqctl(ctx, "no_such_command"); err == nil {
		t.Error("rabbitmqctl hides that a command failed")
	}

	inside := append(sameNamespace(t, pair.pgProcess.PID), sameNamespace(t, pair.rabbitProcess.PID)...)
	if !hasName(inside, "postgres") || !hasName(inside, "beam.smp") || !hasName(inside, "epmd") {
		t.Errorf("processes of the pair: %v; want postgres, beam.smp and epmd among them", inside)
	}
	if err := pair.stop(ctx); err != nil {
		t.Fatalf("stop: %v", err)
	}
	wantEnded(t, inside)
	if _, err := os.Stat(pair.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left (%v)", pair.dir, err)
	}
}

// Whoever starts a private pair and is killed, as by `kill -9`, takes the servers with it; the next one to start a pair
// removes the files.
func TestServersDieWithTheirStarter(t *testing.T) {
	t.Parallel()
	requireNative(t)
	starter, inside := startStarter(t, "022")
	if err := starter.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = starter.Wait()
	wantEnded(t, inside)
}

// Root's umask and the modes of the directories above must not keep the servers' users from what is written for them.
func TestServersStartWithATightUmask(t *testing.T) {
	t.Parallel()
	requireNative(t)
	for _, umask := range []string{"077", "0777"} {
		starter, inside := startStarter(t, umask)
		if !hasName(inside, "postgres") || !hasName(inside, "beam.smp") {
			t.Errorf("umask %s: %v", umask, inside)
		}
		if err := starter.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = starter.Wait()
	}
}

// The shell script that starts a server is written without the carriage returns of a checkout made with others.
func TestScriptHasUnixLineEnds(t *testing.T) {
	embedded := namespaceScript
	defer func() { namespaceScript = embedded }()
	namespaceScript = []byte("set -eu\r\nmount\r\n")
	path, err := writeScript(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "set -eu\nmount\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// startStarter lets another process start a private pair, in a directory that only root may enter, and returns when it has:
// that process, and those of the pair.
func startStarter(t *testing.T, umask string) (*exec.Cmd, []running) {
	t.Helper()
	tmp := t.TempDir()
	if err := os.Chmod(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	starter := exec.CommandContext(withLimit(t), "sh", "-c", `umask "$1" && exec "$0"`, os.Args[0], umask)
	starter.Env = append(os.Environ(), "OUTBOXLAB_STARTER=1", "TMPDIR="+tmp)
	out, err := starter.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	starter.Stderr = t.Output()
	if err := starter.Start(); err != nil {
		t.Fatal(err)
	}
	var pg, rabbit int
	for lines := bufio.NewScanner(out); pg == 0 && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "started %d %d", &pg, &rabbit)
	}
	if pg == 0 {
		t.Fatal("the starter ended without starting")
	}

	return starter, append(sameNamespace(t, pg), sameNamespace(t, rabbit)...)
}

// TestMain lets the test binary be the starter that TestServersDieWithTheirStarter kills.
func TestMain(m *testing.M) {
	if os.Getenv("OUTBOXLAB_STARTER") == "" {
		os.Exit(m.Run())
	}
	pair, err := startPrivateNative(context.Background(), os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("started %d %d\n", pair.(*native).pgProcess.PID, pair.(*native).rabbitProcess.PID)
	select {}
}

// A directory whose owner is dead is swept, one in use is not.
func TestSweepTakesOnlyWhatNobodyUses(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	used, lock, err := makePrivateDir()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	dead, deadLock, err := makePrivateDir()
	if err != nil {
		t.Fatal(err)
	}
	fresh, freshLock, err := makePrivateDir()
	if err := errors.Join(err, deadLock.Close(), freshLock.Close()); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour)
	for _, dir := range []string{used, dead} {
		if err := os.Chtimes(filepath.Join(dir, "lock"), long, long); err != nil {
			t.Fatal(err)
		}
	}
	sweep()
	if !isDir(used) || isDir(dead) || !isDir(fresh) {
		t.Errorf("left: in use %v, dead %v, fresh %v; want true, false, true", isDir(used), isDir(dead), isDir(fresh))
	}
}

// running is one process seen in /proc.
type running struct {
	pid           int
	name, started string
}

// sameNamespace lists the processes in the process namespace of pid, which is one of ours.
func sameNamespace(t *testing.T, pid int) []running {
	t.Helper()
	want, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		t.Fatal(err)
	}
	links, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	var found []running
	for _, link := range links {
		if got, err := os.Readlink(link); err != nil || got != want {
			continue
		}
		dir := filepath.Dir(filepath.Dir(link))
		number, _ := strconv.Atoi(filepath.Base(dir))
		name, _ := os.ReadFile(filepath.Join(dir, "comm"))
		started, err := startTime(number)
		if err == nil {
			found = append(found, running{number, strings.TrimSpace(string(name)), started})
		}
	}
	return found
}

func hasName(all []running, name string) bool {
	return slices.ContainsFunc(all, func(r running) bool { return r.name == name })
}

// wantEnded waits a moment for the processes: one that was killed is not gone in the same instant.
func wantEnded(t *testing.T, all []running) {
	t.Helper()
	for _, r := range all {
		if !(process{r.pid, r.started}).goneWithin(t.Context(), wait.Limit) {
			t.Errorf("process %d (%s) still runs", r.pid, r.name)
		}
	}
}

// withLimit bounds a test that starts servers; the first one on a machine builds the root file system.
func withLimit(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*wait.Limit)
	t.Cleanup(cancel)
	return ctx
}
