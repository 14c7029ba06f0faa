package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/printable"
)

// This file answers: what is there to know about one dead message?

// ShowCmd is `loyalty dlq show`.
type ShowCmd struct {
	ID string `arg:"" help:"The message."`
}

// Help is the longer text of --help.
func (*ShowCmd) Help() string {
	return nameHelp + `

The body is shown as it is if it is text, otherwise quoted; export has its exact bytes.

Examples:

    loyalty dlq show 670fd021
    loyalty dlq show 0192f7c5-3a41-7b60-8d0e-5ab2670fd021
    loyalty dlq show @1f0c22ab9d41`
}

func (cmd *ShowCmd) check(console) error {
	_, err := selectNames([]string{cmd.ID})
	return err
}

func (cmd *ShowCmd) run(ctx context.Context, config Config, c console) error {
	letters, err := readNamed(ctx, config, c, []string{cmd.ID})
	if err != nil {
		return err
	}
	rows := rowsOf(letters)
	if err := addLastErrors(ctx, config.DatabaseURL, rows); err != nil {
		c.note("the error that the consumer noted is not shown: %v", err)
	}
	for i, l := range letters {
		if i > 0 {
			fmt.Fprintln(c.out)
		}
		show(c.out, l, rows[i])
	}
	return nil
}

func rowsOf(letters []letter) []row {
	rows := make([]row, len(letters))
	for i, l := range letters {
		rows[i] = newRow(l, time.Now())
	}
	return rows
}

// readNamed reads the letters of those names, and gives them back to the queue.
func readNamed(ctx context.Context, config Config, c console, names []string) ([]letter, error) {
	selected, err := selectNames(names)
	if err != nil {
		return nil, err
	}
	q, err := openDeadLetters(ctx, config.AMQPURL, c)
	if err != nil {
		return nil, err
	}
	defer q.close()
	var all []letter
	err = q.each(ctx, selected, func(letters []letter) error {
		all = append(all, letters...)
		return nil
	})
	return all, err
}

func show(w io.Writer, l letter, r row) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%-14s %s\n", name, printable.Text(value))
		}
	}
	line("id", r.ID)
	if r.MessageID != r.ID {
		line("message id", strconv.Quote(r.MessageID))
	}
	line("handle", l.handle())
	line("type", l.Type)
	line("reason", r.Reason)
	line("deliveries", strconv.FormatInt(r.Deliveries, 10)+" failed")
	if r.FirstDied != nil {
		line("first died", r.FirstDied.Format(time.DateTime)+" UTC, "+ageText(r.AgeSeconds)+" ago")
	}
	if exchange, key, err := l.origin(); err == nil {
		line("came from", fmt.Sprintf("exchange %q, routing key %q", exchange, key))
	}
	line("last error", r.LastError)
	line("content type", l.ContentType)
	if !l.Timestamp.IsZero() {
		line("timestamp", l.Timestamp.UTC().Format(time.DateTime)+" UTC")
	}
	for _, name := range slices.Sorted(maps.Keys(l.Headers)) {
		line("header", name+" = "+headerText(l.Headers[name]))
	}
	fmt.Fprintf(w, "%-14s %d bytes\n\n%s\n", "body", len(l.Body), bodyText(l.Body))
}

// headerText is a header's value; tables print like maps.
func headerText(v any) string {
	if table, ok := v.(amqp.Table); ok {
		v = map[string]any(table)
	}
	return fmt.Sprint(v)
}

// bodyText is the body, quoted if a terminal might take it for anything but text.
func bodyText(body []byte) string {
	text := string(body)
	odd := func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }
	if !utf8.ValidString(text) || strings.ContainsFunc(text, odd) {
		return strconv.Quote(text)
	}
	return text
}
