package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"example.com/outboxlab/scripts/wait"
)

// TestMain lets the test binary be the program itself, so that signals can be sent to it.
func TestMain(m *testing.M) {
	if os.Getenv("OUTBOXLAB_STACK_ITSELF") != "" {
		main()
	}
	os.Exit(m.Run())
}

// stack is the program as a process of its own. Its temporary files go where the test can see them.
func stack(t *testing.T, args ...string) (cmd *exec.Cmd, tmp string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*wait.Limit)
	t.Cleanup(cancel)
	tmp = t.TempDir()
	cmd = exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "OUTBOXLAB_STACK_ITSELF=1", "TMPDIR="+tmp)
	cmd.Stderr = t.Output()
	return cmd, tmp
}

// The command gets servers that answer, its exit code is passed on, and the servers are gone after it.
func TestWithPassesTheExitCodeAndStopsTheServers(t *testing.T) {
	t.Parallel()
	cmd, tmp := stack(t, "with", "--", "sh", "-c", "echo $TEST_DATABASE_URL; exit 7")
	out, err := cmd.Output()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 7 {
		t.Errorf("with: %v, want exit code 7", err)
	}
	wantStopped(t, strings.TrimSpace(string(out)), tmp)
}

// Variables that would redirect a PostgreSQL client reach neither the lab's connections nor the command; others do.
func TestWithIsDeafToAPostgresClientsVariables(t *testing.T) {
	t.Parallel()
	cmd, _ := stack(t, "with", "--", "sh", "-c", "env | grep ^PG | sort")
	cmd.Env = append(cmd.Env, "PGSERVICE=nosuch", "PGHOST=nowhere.invalid", "PGOPTIONS=-c nonsense", "PGCONNECT_TIMEOUT=soon",
		"PGTARGETSESSIONATTRS=standby", "PGDATA=/mine", "PGADMIN_SETUP_EMAIL=a@b")
	if out, err := cmd.Output(); err != nil || string(out) != "PGADMIN_SETUP_EMAIL=a@b\nPGDATA=/mine\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// Asked to stop, `with` asks the command to stop, and then stops the servers.
func TestWithStopsEverythingOnSIGTERM(t *testing.T) {
	t.Parallel()
	cmd, tmp := stack(t, "with", "--", "sh", "-c", `trap 'echo asked; exit 0' TERM; echo $TEST_DATABASE_URL; while :; do sleep 0.1; done`)
	var out bytes.Buffer
	cmd.Stdout = writerFunc(func(p []byte) (int, error) {
		if out.Len() == 0 {
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
		return out.Write(p)
	})
	err := cmd.Run()
	lines := strings.Fields(out.String())
	if len(lines) != 2 || lines[1] != "asked" {
		t.Fatalf("the command printed %q (%v), want a URL and \"asked\"", out.String(), err)
	}
	wantStopped(t, lines[0], tmp)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func wantStopped(t *testing.T, databaseURL, tmp string) {
	t.Helper()
	if !strings.HasPrefix(databaseURL, "postgres://") {
		t.Fatalf("TEST_DATABASE_URL was %q", databaseURL)
	}
	if os.Getenv("STACK") == "external" {
		return // those are not ours to stop
	}
	if conn, err := pgx.Connect(t.Context(), databaseURL); err == nil {
		_ = conn.Close(t.Context())
		t.Error("PostgreSQL still answers")
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, "*")); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}

// Wrong usage is told in one line, with exit code 2, before anything starts.
func TestWrongUsage(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "expected one of"},
		{"fly", "unexpected argument fly"},
		{"with", "<command>"},
		{"with --", "a command is missing"},
		{"env payments", `there is no service "payments"`},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Chdir(recordedRepository(t))
			var stderr bytes.Buffer
			code := run(t.Context(), strings.Fields(c.args), &bytes.Buffer{}, &stderr)
			if code != 2 || !strings.Contains(stderr.String(), c.want) || strings.Count(stderr.String(), "\n") != 1 {
				t.Errorf("exit code %d, printed %q; want 2 and one line with %q", code, stderr.String(), c.want)
			}
		})
	}
}

// The lines work for `eval "$(…)"` and each service gets its own role, and no more than it needs.
func TestEnvPrintsExportLines(t *testing.T) {
	t.Chdir(recordedRepository(t))
	for _, variable := range []string{"ORDERS_DB_PASSWORD", "RELAY_DB_PASSWORD", "LOYALTY_DB_PASSWORD"} {
		t.Setenv(variable, "")
	}
	const broker = "export AMQP_URL=amqp://u:p@127.0.0.1:2/\n"
	for service, want := range map[string]string{
		"":        "export DATABASE_URL='postgres://u:p@127.0.0.1:1/d?a=b&c=d'\n" + broker + "export RABBITMQ_MANAGEMENT_URL=http://u:p@127.0.0.1:3\n",
		"orders":  "export DATABASE_URL='postgres://orders_app:orders_app@127.0.0.1:1/d?a=b&c=d'\n",
		"relay":   "export DATABASE_URL='postgres://relay_app:relay_app@127.0.0.1:1/d?a=b&c=d'\n" + broker,
		"loyalty": "export DATABASE_URL='postgres://loyalty_app:loyalty_app@127.0.0.1:1/d?a=b&c=d'\n" + broker,
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), strings.Fields("env "+service), &stdout, &stderr); code != 0 || stdout.String() != want {
			t.Errorf("env %s: exit code %d, printed\n%s%s\nwant\n%s", service, code, stdout.String(), stderr.String(), want)
		}
	}
}

// recordedRepository is a directory with an external stack on record that nobody asks.
func recordedRepository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	const record = `{"way": "external", "urls": {"database": "postgres://u:p@127.0.0.1:1/d?a=b&c=d", "amqp": "amqp://u:p@127.0.0.1:2/", "management": "http://u:p@127.0.0.1:3"}}`
	for name, text := range map[string]string{"go.mod": "module m\n", ".stack/record.json": record} {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}
