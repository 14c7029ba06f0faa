package lab

// How does a test put a connection pooler before the database? With Debian's PgBouncer, one for each test, that listens on
// a socket in a directory of its own.

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"example.com/outboxlab/scripts/wait"
)

// nobody runs PgBouncer where the tests run as root, which it refuses.
const nobody = 65534

// PgBouncer starts one in the given pool mode (session, transaction, statement), before the lab's server, and returns what
// turns a database URL into one that leads through it. More settings are lines of its configuration.
func (l *Lab) PgBouncer(t testing.TB, mode string, settings ...string) func(databaseURL string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			t.Skip("PgBouncer is not installed: nothing is known about connection poolers (Debian: apt-get install pgbouncer)")
		}
	}
	dir, err := os.MkdirTemp("", "pgbouncer") //nolint:usetesting // nobody may not enter the parent of t.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l.configurePgBouncer(t, dir, mode, settings)

	var printed bytes.Buffer
	command := exec.Command(program, filepath.Join(dir, "pgbouncer.ini"))
	command.Stdout, command.Stderr = &printed, &printed
	if os.Geteuid() == 0 {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = command.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // at once: SIGINT would wait for clients
		<-ended
		if t.Failed() {
			t.Logf("PgBouncer printed:\n%s", printed.String())
		}
	})

	through := func(databaseURL string) string { return throughSocket(t, databaseURL, dir) }
	Poll(t, wait.Limit, "PgBouncer answers", func() (bool, error) {
		conn, err := pgx.Connect(t.Context(), through(l.OwnerURL))
		if err != nil {
			return false, err
		}
		return true, conn.Close(t.Context())
	})
	return through
}

func (l *Lab) configurePgBouncer(t testing.TB, dir, mode string, settings []string) {
	t.Helper()
	server, err := url.Parse(l.OwnerURL)
	if err != nil {
		t.Fatal("the owner's URL cannot be parsed")
	}
	var users strings.Builder
	for _, u := range []string{l.OwnerURL, l.OrdersURL, l.RelayURL, l.LoyaltyURL} {
		parsed, err := url.Parse(u)
		if err != nil {
			t.Fatal("a role's URL cannot be parsed")
		}
		password, _ := parsed.User.Password()
		fmt.Fprintf(&users, "\"%s\" \"%s\"\n", parsed.User.Username(), password)
	}
	ini := fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = %s
auth_type = scram-sha-256
auth_file = %s/users
pool_mode = %s
%s
`, server.Hostname(), server.Port(), dir, dir, mode, strings.Join(settings, "\n"))
	for name, text := range map[string]string{"pgbouncer.ini": ini, "users": users.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 {
		for _, name := range []string{"", "pgbouncer.ini", "users"} {
			if err := os.Chown(filepath.Join(dir, name), nobody, nobody); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// throughSocket replaces the server in a database URL by the socket in dir.
func throughSocket(t testing.TB, databaseURL, dir string) string {
	t.Helper()
	parsed, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal("a database URL cannot be parsed")
	}
	parsed.Host = ""
	query := parsed.Query()
	query.Set("host", dir)
	query.Set("port", "6432")
	parsed.RawQuery = query.Encode()
	return parsed.String()
}
