// What can befall the broker, short of its death? The verb broker: the network to it, its bindings, its memory.
package main

import (
	"context"
	"slices"
)

// onThePath: needs the services to reach the broker through a path that can be cut.
func onThePath(what string) bool { return slices.Contains([]string{"cut", "silent", "mend"}, what) }

// onTheServer: befalls everybody who uses this server.
func onTheServer(what string) bool { return slices.Contains([]string{"alarm", "calm"}, what) }

func compileBroker(args []string) (action, error) {
	if len(args) != 1 {
		return nil, usage("broker")
	}
	switch args[0] {
	case "cut":
		return func(_ context.Context, s *stage) error { s.consumersLost(); s.path.cut(); return nil }, nil
	case "silent":
		return func(_ context.Context, s *stage) error { s.consumersLost(); return s.path.silence() }, nil
	case "mend":
		return func(ctx context.Context, s *stage) error { s.consumersLost(); return s.path.mend(ctx) }, nil
	case "unbind":
		return func(_ context.Context, s *stage) error { return s.broker.unbind() }, nil
	case "bind":
		return func(_ context.Context, s *stage) error { return s.broker.bind() }, nil
	case "alarm":
		return func(ctx context.Context, s *stage) error { s.alarmed = true; return s.setWatermark(ctx, "0") }, nil
	case "calm":
		return func(ctx context.Context, s *stage) error { return s.calm(ctx) }, nil
	}
	return nil, usage("broker")
}

// setWatermark moves the part of the machine's memory above which the broker takes nothing more from publishers.
func (s *stage) setWatermark(ctx context.Context, part string) error {
	_, err := s.pair.Rabbitmqctl(ctx, "set_vm_memory_high_watermark", part)
	return err
}

// calm ends the alarm that the story has raised, if it has.
func (s *stage) calm(ctx context.Context) error {
	if !s.alarmed {
		return nil
	}
	s.alarmed = false
	return s.setWatermark(ctx, "0.6") // the server's default
}
