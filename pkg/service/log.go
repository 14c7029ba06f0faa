package service

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/term"

	"example.com/outboxlab/pkg/printable"
)

// This file answers: how do log lines look?
//
// Every message is a sentence that carries all its facts, because in a workshop the log is read
// aloud; the attributes carry the same facts for machines. So text mode prints the sentence only,
//
//	[loyalty] f883ea62 order 2: +45 points
//
// and JSON mode prints both.

// LogConfig, embedded, is the part of every service's configuration that is about logging.
type LogConfig struct {
	// How log lines look: text reads like a transcript, json carries the same facts as fields.
	LogFormat string `env:"LOG_FORMAT" envDefault:"text"`
	// Lowest level that is printed: debug (one line per effect), info, warn or error.
	LogLevel slog.Level `env:"LOG_LEVEL" envDefault:"info"`
}

// CheckLog refuses a format that does not exist.
func (c LogConfig) CheckLog() error {
	if c.LogFormat != "text" && c.LogFormat != "json" {
		return fmt.Errorf("LOG_FORMAT=%q: must be text or json", c.LogFormat)
	}
	return nil
}

// AtLeast is c with a level that prints messages of the given level too.
func (c LogConfig) AtLeast(level slog.Level) LogConfig {
	c.LogLevel = min(c.LogLevel, level)
	return c
}

// NewLogger makes the logger of the service called name.
func NewLogger(name string, c LogConfig, w io.Writer) *slog.Logger {
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(printable.JSON(w), &slog.HandlerOptions{Level: c.LogLevel})).With("service", name)
	}
	return slog.New(&transcript{name: name, level: c.LogLevel, out: w, mu: new(sync.Mutex), colour: onTerminal(w)})
}

func onTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == ""
}

// transcript is the slog.Handler of text mode.
type transcript struct {
	name   string
	level  slog.Level
	out    io.Writer
	mu     *sync.Mutex
	colour bool
}

func (t *transcript) Enabled(_ context.Context, level slog.Level) bool { return level >= t.level }
func (t *transcript) WithAttrs([]slog.Attr) slog.Handler               { return t }
func (t *transcript) WithGroup(string) slog.Handler                    { return t }

func (t *transcript) Handle(_ context.Context, r slog.Record) error {
	message := printable.Sentence(r.Message)
	switch {
	case t.colour && r.Level >= slog.LevelError:
		message = "\x1b[31m" + message + "\x1b[0m"
	case t.colour && r.Level >= slog.LevelWarn:
		message = "\x1b[33m" + message + "\x1b[0m"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := fmt.Fprintf(t.out, "[%s] %s\n", t.name, message)
	return err
}
