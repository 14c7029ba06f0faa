package servers

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// newRepository is a directory that counts as a repository, with ports of its own for the main stack.
func newRepository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte("module example.com/test\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var free ports
	if err := free.fillFree(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("POSTGRES_PORT", strconv.Itoa(free.Postgres))
	t.Setenv("AMQP_PORT", strconv.Itoa(free.AMQP))
	t.Setenv("RABBITMQ_MANAGEMENT_PORT", strconv.Itoa(free.Management))
	t.Setenv("STACK", string(Native))
	return root
}

// The main stack outlives `up`, a second `up` finds it, a third one starts only the server that died, and `down` leaves
// neither a process nor a file.
func TestNativeStackUpAgainAndDown(t *testing.T) {
	requireNative(t)
	ctx := withLimit(t)
	root := newRepository(t)
	t.Cleanup(func() { _ = Down(context.Background(), root, t.Output()) })

	at, way, err := Up(ctx, root, t.Output())
	if err != nil || way != Native {
		t.Fatalf("up: %s, %v", way, err)
	}
	writeRow(ctx, t, at.Database)
	first := mustRecord(t, root)
	if have, err := Check(ctx, root); err != nil || !atLeast(have.PostgreSQL, "18") || !atLeast(have.RabbitMQ, minRabbitMQ) {
		t.Errorf("check: %+v, %v", have, err)
	}

	if _, _, err := Up(ctx, root, t.Output()); err != nil {
		t.Fatal(err)
	}
	if again := mustRecord(t, root); *again.Native != *first.Native {
		t.Errorf("the second up changed the record from %+v to %+v", *first.Native, *again.Native)
	}

	if err := first.Native.Postgres.end(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(ctx, root); err == nil {
		t.Error("check finds nothing wrong with a dead PostgreSQL")
	}
	if _, _, err := Up(ctx, root, t.Output()); err != nil {
		t.Fatal(err)
	}
	last := mustRecord(t, root)
	if last.Native.RabbitMQ != first.Native.RabbitMQ || last.Native.Postgres == first.Native.Postgres {
		t.Errorf("after PostgreSQL's death up went from %+v to %+v", *first.Native, *last.Native)
	}
	wantRow(ctx, t, at.Database)

	inside := append(sameNamespace(t, last.Native.Postgres.PID), sameNamespace(t, last.Native.RabbitMQ.PID)...)
	if err := Down(ctx, root, t.Output()); err != nil {
		t.Fatal(err)
	}
	wantEnded(t, inside)
	if isDir(stackDir(root)) {
		t.Error(".stack is left")
	}
	if _, _, err := Recorded(root); !errors.Is(err, ErrNothingUp) {
		t.Errorf("recorded after down: %v", err)
	}
}

// The error for a taken port names the port and the variable, and nothing is started.
func TestUpSaysWhichPortIsTaken(t *testing.T) {
	requireNative(t)
	root := newRepository(t)
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	port := other.Addr().(*net.TCPAddr).Port
	t.Setenv("AMQP_PORT", strconv.Itoa(port))

	_, _, err = Up(withLimit(t), root, t.Output())
	var taken *PortTakenError
	if !errors.As(err, &taken) || taken.Port != port || taken.Variable != "AMQP_PORT" {
		t.Errorf("got %v, want an error that names %d and AMQP_PORT", err, port)
	}
	if isDir(stackDir(root)) {
		t.Error("something was started or recorded")
	}
}

// `down` must not end a process that only has the number of one of ours.
func TestDownSparesAReusedProcessNumber(t *testing.T) {
	root := newRepository(t)
	self, err := describe(os.Getpid())
	if err != nil {
		t.Skipf("needs /proc: %v", err)
	}
	other := process{self.PID, self.Started + "0"}
	old := record{Way: Native, Native: &nativeRecord{Postgres: other, RabbitMQ: other}}
	if err := old.write(stackDir(root)); err != nil {
		t.Fatal(err)
	}
	if err := Down(t.Context(), root, t.Output()); err != nil { // it would kill this test
		t.Fatal(err)
	}
	if !self.alive() || other.alive() {
		t.Errorf("alive: self %v, the other %v", self.alive(), other.alive())
	}
}

// Wrong settings are found before anything starts, and are told apart from failures.
func TestUpRefusesWrongSettings(t *testing.T) {
	for _, c := range []struct{ variable, value, want string }{
		{"STACK", "podman", "STACK=podman is unknown"},
		{"POSTGRES_PORT", "many", "POSTGRES_PORT=many is not a port number"},
		{"AMQP_PORT", "70000", "AMQP_PORT=70000 is not a port number"},
		{"STACK", "external", "STACK=external needs DATABASE_URL, AMQP_URL, RABBITMQ_MANAGEMENT_URL"},
	} {
		t.Run(c.variable+"="+c.value, func(t *testing.T) {
			root := newRepository(t)
			for _, name := range []string{"DATABASE_URL", "AMQP_URL", "RABBITMQ_MANAGEMENT_URL"} {
				t.Setenv(name, "")
			}
			if c.variable != "STACK" {
				requireNative(t)
			}
			t.Setenv(c.variable, c.value)
			_, _, err := Up(t.Context(), root, t.Output())
			var wrong *UsageError
			if !errors.As(err, &wrong) || !strings.Contains(wrong.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func mustRecord(t *testing.T, root string) *record {
	t.Helper()
	r, err := readRecord(stackDir(root))
	if err != nil || r == nil || r.Native == nil {
		t.Fatalf("record: %+v, %v", r, err)
	}
	return r
}
