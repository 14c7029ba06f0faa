package servers

// Do two clones of the repository stay out of each other's way?

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Containers are found by the name of their project: one for each clone, whatever way leads to it.
func TestEachCloneHasAProjectOfItsOwn(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	one, two, link := filepath.Join(parent, "a", "outboxlab"), filepath.Join(parent, "b", "outboxlab"), filepath.Join(parent, "link")
	for _, dir := range []string{one, two} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(one, link); err != nil {
		t.Fatal(err)
	}
	if projectOf(one) == projectOf(two) || projectOf(one) != projectOf(link) || !strings.HasPrefix(projectOf(one), "outboxlab-") {
		t.Errorf("%s, %s, %s", projectOf(one), projectOf(two), projectOf(link))
	}
}

// A project of another system, named in the user's shell, is left alone: `down` removes what it finds.
func TestComposeIsToldItsProject(t *testing.T) {
	dir := t.TempDir()
	docker := "#!/bin/sh\nprintf '%s ' \"$@\"; env | grep -E '^(COMPOSE_|POSTGRES_PORT|AMQP_PORT)' | sort | tr '\\n' ' '\n"
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(docker), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for name, value := range map[string]string{"COMPOSE_PROJECT_NAME": "bank", "COMPOSE_FILE": "bank.yaml", "COMPOSE_PROFILES": "x", "POSTGRES_PORT": "1", "AMQP_PORT": "2"} {
		t.Setenv(name, value)
	}
	var told strings.Builder
	c := compose{root: dir, project: "outboxlab-1", ports: ports{Postgres: 50001, AMQP: 50002}}
	if err := c.run(t.Context(), &told, "down", "--volumes"); err != nil {
		t.Fatal(err)
	}
	if want := "compose --project-name outboxlab-1 down --volumes AMQP_PORT=50002 POSTGRES_PORT=50001 "; told.String() != want {
		t.Errorf("docker was told %q, want %q", told.String(), want)
	}
}

// Where the standard port is taken, a second stack listens elsewhere and says so; a port that was asked for is not replaced.
func TestAnotherStackGetsOtherPorts(t *testing.T) {
	for _, f := range fixed {
		t.Setenv(f.variable, "")
	}
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	taken := other.Addr().(*net.TCPAddr).Port
	var free ports
	if err := free.fillFree(); err != nil {
		t.Fatal(err)
	}

	var told strings.Builder
	chosen, err := mainPorts(ports{Postgres: taken, AMQP: free.AMQP, Management: free.Management}, &told)
	if err != nil || chosen.Postgres == taken || chosen.Postgres == 0 || chosen.AMQP != free.AMQP || chosen.Management != free.Management {
		t.Errorf("%+v, %v; want only port %d replaced", chosen, err, taken)
	}
	if !strings.Contains(told.String(), strconv.Itoa(taken)) || !strings.Contains(told.String(), "POSTGRES_PORT") {
		t.Errorf("told %q", told.String())
	}

	t.Setenv("AMQP_PORT", strconv.Itoa(free.AMQP))
	var tries []ports
	err = onFreePorts(ports{Postgres: free.Postgres, Management: free.Management}, &told, func(p ports) error {
		tries = append(tries, p)
		return errAddressInUse
	})
	if len(tries) != 3 || err == nil || slices.ContainsFunc(tries, func(p ports) bool { return p.AMQP != free.AMQP }) {
		t.Errorf("tries %+v, %v", tries, err)
	}
}

// A checkout that was copied with its .stack/ does not take the other's servers for its own; one that was moved keeps them.
func TestACopiedRecordIsRefused(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	at := func(name string) string { return stackDir(filepath.Join(parent, name)) }
	if err := (record{Way: Native}).write(at("original")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(parent, "copy"), os.DirFS(filepath.Join(parent, "original"))); err != nil {
		t.Fatal(err)
	}
	if _, err := readRecord(at("original")); err != nil {
		t.Error(err)
	}
	if _, err := readRecord(at("copy")); err == nil || !strings.Contains(err.Error(), at("original")) {
		t.Errorf("the copy: %v, want an error that names the original", err)
	}
	if err := os.RemoveAll(filepath.Join(parent, "original")); err != nil {
		t.Fatal(err)
	}
	if r, err := readRecord(at("copy")); err != nil || r == nil || r.Way != Native {
		t.Errorf("moved: %+v, %v", r, err)
	}
}
