package main

// A part runs on a rig: a pair of servers of its own, set as the part needs it, and the services' binaries.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/jackc/pgx/v5"

	"example.com/outboxlab/scripts/stack/servers"
)

// measuring is a part's work: it reports to the rig.
type measuring func(ctx context.Context, r *rig) error

// rig is what parts run on.
type rig struct {
	sizes
	pair     *servers.Pair
	binaries string // directory
	machine  machine
	progress io.Writer
	measures []measure
}

func openRig(ctx context.Context, group []part, size sizes, binaries string, progress io.Writer) (_ *rig, err error) {
	r := &rig{sizes: size, binaries: binaries, progress: progress}
	if r.pair, err = servers.StartPrivate(ctx, progress); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close(context.WithoutCancel(ctx)))
		}
	}()
	var settings []string
	for _, p := range group {
		settings = append(settings, p.settings...)
	}
	slices.Sort(settings)
	if err := r.set(ctx, slices.Compact(settings)); err != nil {
		return nil, err
	}
	r.machine, err = describe(ctx, r.pair)
	return r, err
}

func (r *rig) close(ctx context.Context) error { return r.pair.Stop(ctx) }

// set changes PostgreSQL's settings and restarts it, unless there is nothing to change.
func (r *rig) set(ctx context.Context, settings []string) error {
	if len(settings) == 0 {
		return nil
	}
	conn, err := pgx.Connect(ctx, r.pair.URLs.Database)
	if err != nil {
		return err
	}
	for _, s := range settings {
		if _, err := conn.Exec(ctx, "ALTER SYSTEM SET "+s); err != nil {
			return errors.Join(err, conn.Close(ctx))
		}
	}
	if err := conn.Close(ctx); err != nil {
		return err
	}
	if err := r.pair.RestartPostgres(ctx); err != nil {
		return fmt.Errorf("restart PostgreSQL with %v: %w", settings, err)
	}
	return nil
}

// report adds a result.
func (r *rig) report(m ...measure) { r.measures = append(r.measures, m...) }

// note tells how far the part is.
func (r *rig) note(format string, args ...any) {
	fmt.Fprintf(r.progress, "  … "+format+"\n", args...)
}
