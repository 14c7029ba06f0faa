package servers

// How does a native pair live? Both servers are started side by side, each in namespaces of its own, and ended by
// killing the first process of those.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// native is a pair that runs from the Debian root file system.
type native struct {
	root    string // the root file system
	dir     string // the pair's data, logs and settings
	ports   ports
	private bool // the servers die with this process, and dir is removed by stop

	lock *os.File // held while a private pair's directory is in use

	starting                 sync.Mutex // guards the processes, and onStart, while both servers start
	pgProcess, rabbitProcess process
	onStart                  func() error // called when either process has started, if not nil
}

// nativePossible returns why the native way cannot work on this machine, or nil.
func nativePossible() error {
	switch {
	case runtime.GOOS != "linux":
		return errors.New("this is " + runtime.GOOS)
	case os.Geteuid() != 0:
		return errors.New("not root")
	}
	return nil
}

// startPrivateNative starts a pair with free ports in a temporary directory.
func startPrivateNative(ctx context.Context, progress io.Writer) (runner, error) {
	root, err := RootFS(ctx, progress)
	if err != nil {
		return nil, err
	}
	dir, lock, err := makePrivateDir()
	if err != nil {
		return nil, err
	}

	// Between choosing a free port and listening on it another program can take it: then choose again.
	var pair *native
	for range 3 {
		pair = &native{root: root, dir: dir, private: true, lock: lock}
		if err = pair.ports.fillFree(); err != nil {
			break
		}
		if err = pair.start(ctx); err == nil {
			return pair, nil
		}
		if !errors.Is(err, errAddressInUse) {
			break
		}
	}
	return nil, errors.Join(err, pair.stop(context.WithoutCancel(ctx)))
}

// start starts whichever of the two servers does not run, and returns when both answer. If one does not come up, both are
// ended: half a pair is no use.
func (n *native) start(ctx context.Context) error {
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return err
	}
	both, bothCtx := errgroup.WithContext(ctx)
	if !n.pgProcess.alive() {
		both.Go(func() error { return n.startPostgres(bothCtx) })
	}
	if !n.rabbitProcess.alive() {
		both.Go(func() error { return n.startRabbitMQ(bothCtx) })
	}
	err := both.Wait()
	if err == nil {
		_, err = check(ctx, n.urls()) // a server that ran before may do so and not answer
	}
	if err != nil {
		return errors.Join(err, n.end(context.WithoutCancel(ctx), 0))
	}
	return nil
}

// launch starts one server's program and notes its process.
func (n *native) launch(program inRoot, log string, noted *process) error {
	started, err := program.start(log)
	if err != nil {
		return err
	}
	n.starting.Lock()
	defer n.starting.Unlock()
	*noted = started
	if n.onStart == nil {
		return nil
	}
	return n.onStart()
}

// end ends both servers, with the grace time for an orderly stop.
func (n *native) end(ctx context.Context, grace time.Duration) error {
	var both errgroup.Group
	both.Go(func() error { return n.pgProcess.end(ctx, grace) })
	both.Go(func() error { return n.rabbitProcess.end(ctx, grace) })
	return both.Wait()
}

func (n *native) urls() URLs { return n.ports.urls() }

func (n *native) stop(ctx context.Context) error {
	err := n.end(ctx, 0)
	if n.private {
		err = errors.Join(err, os.RemoveAll(n.dir), n.lock.Close())
	}
	return err
}

func (n *native) restartPostgres(ctx context.Context) error {
	if err := n.pgProcess.end(ctx, 0); err != nil {
		return err
	}
	return n.startPostgres(ctx)
}

func (n *native) restartRabbitMQ(ctx context.Context) error {
	if err := n.rabbitProcess.end(ctx, 0); err != nil {
		return err
	}
	return n.startRabbitMQ(ctx)
}

// startFailed ends a server that did not come up and says what its log said last.
func (n *native) startFailed(p process, cause error, log string) error {
	ended := p.end(context.Background(), 0)
	text, _ := os.ReadFile(log)
	return explain(errors.Join(fmt.Errorf("%w\n%s ends with:\n%s", cause, log, lastLines(string(text), 12)), ended), n.dir)
}
