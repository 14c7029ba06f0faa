package servers

// How is the main stack brought up, asked and brought down? Its servers outlive the command that started them, so
// everything goes through the record in .stack/.

import (
	"context"
	"fmt"
	"io"
	"os"
)

// Up brings the main stack of the repository that holds dir up, the recorded way if there is a record, and returns when
// both servers answer. Called again, it starts only what does not run.
func Up(ctx context.Context, dir string, progress io.Writer) (URLs, Way, error) {
	root, unlock, err := lockStack(ctx, dir, progress)
	if err != nil {
		return URLs{}, "", err
	}
	defer unlock()
	if note := noteIgnored(); note != "" {
		fmt.Fprintln(progress, note)
	}
	way, old, err := chooseAgain(stackDir(root))
	if err != nil {
		return URLs{}, "", err
	}

	var pair *Pair
	if way == External {
		pair, err = upExternal(ctx, old)
	} else {
		pair, err = tryInOrder(ctx, progress, way, map[Way]start{
			Docker: func(ctx context.Context, progress io.Writer) (runner, error) {
				return upCompose(ctx, root, old, progress)
			},
			Native: func(ctx context.Context, progress io.Writer) (runner, error) {
				return upNative(ctx, stackDir(root), old, progress)
			},
		})
	}
	if err != nil {
		return URLs{}, "", err
	}
	if pair.Way != Native { // that way has kept the record itself, from the first process on
		r := record{Way: pair.Way, URLs: pair.URLs}
		if c, ok := pair.runner.(compose); ok {
			r.Compose = &composeRecord{c.project, c.ports}
		}
		if err := r.write(stackDir(root)); err != nil {
			return URLs{}, "", err
		}
	}
	return pair.URLs, pair.Way, nil
}

// Down ends the main stack and removes its data and .stack/. With nothing up it does nothing. Servers given by
// STACK=external are only forgotten.
func Down(ctx context.Context, dir string, progress io.Writer) error {
	root, unlock, err := lockStack(ctx, dir, progress)
	if err != nil {
		return err
	}
	defer unlock()
	old, err := readRecord(stackDir(root))
	if err != nil {
		return err
	}

	switch {
	case old == nil:
		fmt.Fprintln(progress, "nothing is up")
	case old.Way == Docker:
		err = recordedCompose(root, old).stop(ctx)
	case old.Way == Native:
		pair := native{pgProcess: old.Native.Postgres, rabbitProcess: old.Native.RabbitMQ}
		err = pair.end(ctx, 0) // the data goes, too: nothing to save in an orderly stop
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(stackDir(root))
}

// Check asks both servers of the main stack once; no error means that both answer and are new enough.
func Check(ctx context.Context, dir string) (Versions, error) {
	at, _, err := Recorded(dir)
	if err != nil {
		return Versions{}, err
	}
	return check(ctx, at)
}

// chooseAgain is choose for a stack that may be recorded already: the record decides, and STACK may not contradict it.
func chooseAgain(stack string) (Way, *record, error) {
	way, err := choose()
	if err != nil {
		return "", nil, err
	}
	old, err := readRecord(stack)
	if err != nil || old == nil {
		return way, nil, err
	}
	if way != "" && way != old.Way {
		return "", nil, &UsageError{fmt.Sprintf("STACK=%s, but the stack is up the %s way: run `go run ./scripts/stack down` first", way, old.Way)}
	}
	return old.Way, old, nil
}

// upExternal takes the servers from the environment, or from the record when STACK is not set again.
func upExternal(ctx context.Context, old *record) (*Pair, error) {
	if old == nil || os.Getenv("STACK") != "" {
		return startExternal(ctx)
	}
	_, err := check(ctx, old.URLs)
	return &Pair{URLs: old.URLs, Way: External, runner: external{old.URLs}}, err
}

// upNative starts those native servers that do not run, on the data in .stack/ if there is some.
func upNative(ctx context.Context, stack string, old *record, progress io.Writer) (runner, error) {
	root, err := RootFS(ctx, progress)
	if err != nil {
		return nil, err
	}
	pair := &native{root: root, dir: stack}
	// Written down as soon as a process exists: even if this command is killed, `down` finds it.
	pair.onStart = func() error {
		return record{Way: Native, URLs: pair.urls(), Native: &nativeRecord{pair.ports, pair.pgProcess, pair.rabbitProcess}}.write(stack)
	}
	if old != nil && old.Native != nil {
		pair.ports, pair.pgProcess, pair.rabbitProcess = old.Native.Ports, old.Native.Postgres, old.Native.RabbitMQ
	}
	if pair.pgProcess.alive() || pair.rabbitProcess.alive() {
		return pair, pair.start(ctx)
	}
	return pair, onFreePorts(pair.ports, progress, func(chosen ports) error {
		pair.ports = chosen
		fmt.Fprintln(progress, "starting PostgreSQL and RabbitMQ from", root)
		return pair.start(ctx)
	})
}

// lockStack keeps two commands on one stack apart. It locks the repository's directory itself: a file in .stack/ would
// go with it.
func lockStack(ctx context.Context, dir string, progress io.Writer) (root string, unlock func() error, err error) {
	if root, err = repository(dir); err != nil {
		return "", nil, err
	}
	file, err := os.Open(root)
	if err != nil {
		return "", nil, err
	}
	unlock, err = lockFile(ctx, file, progress)
	return root, unlock, err
}
