package main

// Does every story end well? Each scenario file is a subtest, in parallel with the others, on a database and a vhost
// of its own; own-servers ones on servers of their own. When one fails, its whole narration is shown, the services'
// output included.

import (
	"bytes"
	"context"
	"path/filepath"
	"sync"
	"testing"

	"example.com/outboxlab/scripts/blackbox"
	"example.com/outboxlab/scripts/lab"
	"example.com/outboxlab/scripts/stack/servers"
)

func TestScenarios(t *testing.T) {
	root, err := blackbox.ModuleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	binaries := t.TempDir()
	if err := blackbox.Build(t.Context(), root, binaries); err != nil {
		t.Fatal(err)
	}
	scripts, err := readScripts(filepath.Join(root, "scripts", "scenarios"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scripts {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			var told bytes.Buffer
			out := newNarrator(&told, false)
			l, pair := stageFor(t, s)
			r, err := perform(t.Context(), s, l, pair, binaries, out)
			if err != nil || !r.passed() {
				t.Errorf("%v\n%s", err, told.String())
			}
		})
	}
}

// stageFor is the test's lab, and its servers when it may restart them.
func stageFor(t *testing.T, s *script) (*lab.Lab, *servers.Pair) {
	t.Helper()
	if !s.ownServers {
		return lab.ForTest(t), nil
	}
	pair, err := servers.StartPrivate(t.Context(), &testLog{t: t})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pair.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	l, err := lab.New(t.Context(), pair.URLs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return l, pair
}

// testLog passes progress on to a test's log.
type testLog struct {
	t  *testing.T
	mu sync.Mutex
}

func (l *testLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.t.Log(string(bytes.TrimSpace(text)))
	return len(text), nil
}
