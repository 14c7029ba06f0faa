package service_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"example.com/outboxlab/pkg/service"
)

// Two failures alike but for a port, one of another kind, then success: each reason is told once, and the end of it.
func TestAnOutageIsToldOncePerReason(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var printed strings.Builder
	log := service.NewLogger("test", service.LogConfig{LogFormat: "text", LogLevel: slog.LevelInfo}, &printed)
	outcomes := []error{errors.New("refused on port 51"), errors.New("refused on port 52"), errors.New("no such vhost"), nil}
	service.KeepUp(ctx, log, "working", func(_ context.Context, up func()) error {
		outcome := outcomes[0]
		outcomes = outcomes[1:]
		if outcome == nil {
			up()
			cancel()
		}
		return outcome
	})
	want := "[test] working: refused on port 51; trying again\n[test] working: no such vhost; trying again\n[test] working works again\n"
	if printed.String() != want {
		t.Errorf("printed\n%swant\n%s", printed.String(), want)
	}
}
