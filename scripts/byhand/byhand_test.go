// Package byhand answers: does docs/by-hand.md still work? It types the page's commands, word for word, into three
// shells, and compares what appears with what the page says.
//
// The page is written for the main stack and its vhost /; here it plays in a lab. Three words therefore mean something
// else in these shells (preamble): `go` tells the lab's URLs, `make` finds the work done, `curl` asks for the lab's vhost.
package byhand

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/outboxlab/scripts/lab"
	"example.com/outboxlab/scripts/stack/servers"
	"example.com/outboxlab/scripts/wait"
)

const (
	root = "../.."
	// again is how long a look may show the wrong thing before the reader looks once more.
	again = time.Second
)

func TestThePageIsTrue(t *testing.T) {
	t.Parallel()
	markdown, err := os.ReadFile(filepath.Join(root, "docs/by-hand.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := readPage(string(markdown))
	if err != nil {
		t.Fatal(err)
	}
	dir, preamble := buildServices(t), preamble(t, lab.ForTest(t))
	terminals := map[string]*terminal{}
	for _, b := range blocks {
		if terminals[b.terminal] == nil {
			terminals[b.terminal] = openTerminal(t, dir, preamble)
		}
	}
	r := &reader{t: t, terminals: terminals, ids: ids{}}
	for i, b := range blocks {
		if b.typed {
			r.typeIn(b)
			continue
		}
		r.compare(b, blocks[i-1])
	}
	for name, x := range terminals {
		r.await(x, fmt.Sprintf("terminal %s idle at the end of the page", name))
	}
}

// reader goes through the page.
type reader struct {
	t         *testing.T
	terminals map[string]*terminal
	ids       ids
}

// typeIn types a block of commands once what was typed before it has come to its end.
func (r *reader) typeIn(b block) {
	r.t.Helper()
	x := r.terminals[b.terminal]
	if b.ctrlC {
		x.interrupt()
	}
	r.await(x, fmt.Sprintf("line %d: ready for the next command", b.line))
	rest := x.unread()
	if b.ctrlC {
		rest = strings.Replace(rest, "[loyalty] stopped\n", "", 1) // the page says so at its beginning
	}
	if x.expecting && strings.TrimSpace(rest) != "" {
		r.t.Fatalf("line %d: before it, terminal %s printed what the page does not have:\n%s", b.line, b.terminal, rest)
	}
	x.send(b.body)
}

// compare waits until what the page says has appeared. before is the block before it on the page.
func (r *reader) compare(b, before block) {
	r.t.Helper()
	x := r.terminals[b.terminal]
	look := time.Now().Add(again)
	var looks []string // what they showed, the newest is in output
	lab.Poll(r.t, wait.Limit, fmt.Sprintf("line %d: the page says\n%s", b.line, b.body), func() (bool, error) {
		output := x.unread()
		learnt, same := r.ids.match(b.body, output)
		if same {
			r.ids = learnt
			x.read(output)
			return true, nil
		}
		if time.Now().After(look) && before.typed && before.terminal == b.terminal && before.onlyLooks() && x.finished() {
			looks = append(looks, output)
			x.send(before.body)
			look = time.Now().Add(again)
		}
		return false, fmt.Errorf("terminal %s says\n%s\nand said, at %d looks before, last\n%s", b.terminal, output, len(looks), last(looks))
	})
}

// last is what the last look showed: the newest may be under way, and show nothing yet.
func last(looks []string) string {
	if len(looks) == 0 {
		return ""
	}
	return looks[len(looks)-1]
}

func (r *reader) await(x *terminal, what string) {
	r.t.Helper()
	lab.Poll(r.t, wait.Limit, what, func() (bool, error) {
		if x.finished() {
			return true, nil
		}
		return false, fmt.Errorf("it has printed: %s", x.unread())
	})
}

// buildServices returns a directory with the services in bin/, as the repository has after `make build`.
func buildServices(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "bin")+"/", "./services/...", "./migrations")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, output)
	}
	return dir
}

// preamble is what the shells know before the page begins.
func preamble(t *testing.T, l *lab.Lab) string {
	t.Helper()
	lines := []string{
		"make() { :; }",
		`curl() { command curl "${@//%2F/` + l.Vhost + `}"; }`,
		"export LOYALTY_ADDR=127.0.0.1:0", // 8081 may be somebody's
		`go() {`,
		`  case "$*" in`,
		`  "run ./scripts/stack up" | "run ./scripts/stack down") ;;`,
	}
	for command, variables := range map[string]string{
		"env":         fmt.Sprintf("DATABASE_URL='%s' AMQP_URL='%s' RABBITMQ_MANAGEMENT_URL='%s'", l.OwnerURL, l.AMQPURL, l.ManagementURL),
		"env orders":  fmt.Sprintf("DATABASE_URL='%s'", l.OrdersURL),
		"env relay":   fmt.Sprintf("DATABASE_URL='%s' AMQP_URL='%s'", l.RelayURL, l.AMQPURL),
		"env loyalty": fmt.Sprintf("DATABASE_URL='%s' AMQP_URL='%s'", l.LoyaltyURL, l.AMQPURL),
	} {
		lines = append(lines, fmt.Sprintf(`  "run ./scripts/stack %s") echo "export %s" ;;`, command, variables))
	}
	lines = append(lines, `  *) echo "unknown here: go $*"; return 1 ;;`, `  esac`, `}`, psql(t))
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return line == "" }), "\n")
}

// psql returns what makes psql known to the shell: nothing where it is installed, else the one that comes with the
// native servers.
func psql(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("psql"); err == nil {
		return ""
	}
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("psql is needed: install a PostgreSQL client")
	}
	rootFS, err := servers.RootFS(t.Context(), os.Stderr)
	if err != nil {
		t.Fatalf("psql is not installed, and the native servers that have one: %v", err)
	}
	return `psql() { chroot "` + rootFS + `" psql "$@"; }`
}
