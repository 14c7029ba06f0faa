package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"example.com/outboxlab/pkg/printable"
)

// This file answers: what lies in the dead-letter queue, and why? All of it is in one table, in the
// order of death; of each message only what the table shows stays in memory, less than a
// kilobyte, so that 100,000 messages are no trouble.

// ListCmd is `loyalty dlq list`.
type ListCmd struct {
	JSON   bool   `name:"json" help:"JSON lines instead of a table: one object per message, nothing cut short but the body."`
	Reason string `placeholder:"R" enum:",rejected,delivery_limit,expired,maxlen" default:"" help:"Only those that died of this: rejected (can never be handled), delivery_limit (failed too often), expired or maxlen."`
}

// Help is the longer text of --help.
func (*ListCmd) Help() string {
	return `DELIVERIES counts failed deliveries. AGE is the time since the first death. LAST ERROR is what the consumer noted in
the database; without one, what is plainly wrong with the message. Every message is seen once and stays where it is.

Examples:

    loyalty dlq list
    loyalty dlq list --reason delivery_limit
    loyalty dlq list --json | jq -r 'select(.ageSeconds > 86400) | .id'`
}

const (
	bodyStart   = 80 // bytes of a body that a listing keeps
	errorColumn = 60 // characters of an error that the table shows
	bodyColumn  = 40
)

// row is a letter's line, and its form in JSON.
type row struct {
	ID         string     `json:"id"` // what the other commands call it
	MessageID  string     `json:"messageId"`
	Type       string     `json:"type"`
	Reason     string     `json:"reason"`
	Deliveries int64      `json:"deliveries"`
	FirstDied  *time.Time `json:"firstDied"` // null for a message that did not die but was put here
	AgeSeconds int64      `json:"ageSeconds"`
	LastError  string     `json:"lastError"`
	Body       string     `json:"bodyStart"`
	BodyBytes  int        `json:"bodyBytes"`
}

// newRow copies what it keeps: a piece of a body would hold on to all of it.
func newRow(l letter, now time.Time) row {
	last, _ := l.lastDeath()
	r := row{
		ID: l.name(), MessageID: l.MessageId, Type: l.Type, Reason: last.reason, Deliveries: l.failedDeliveries(),
		LastError: l.why(), Body: strings.ToValidUTF8(string(l.Body[:min(len(l.Body), bodyStart)]), "\ufffd"), BodyBytes: len(l.Body),
	}
	if first := l.firstDied(); !first.IsZero() {
		first = first.UTC()
		r.FirstDied, r.AgeSeconds = &first, max(0, int64(now.Sub(first).Seconds()))
	}
	return r
}

func (cmd *ListCmd) check(console) error { return nil }

func (cmd *ListCmd) run(ctx context.Context, config Config, c console) error {
	rows, err := cmd.read(ctx, config, c)
	if err != nil {
		return err
	}
	slices.SortStableFunc(rows, func(a, b row) int { return int(b.AgeSeconds - a.AgeSeconds) })
	if err := addLastErrors(ctx, config.DatabaseURL, rows); err != nil {
		c.note("the errors that the consumer noted are not shown: %v", err)
	}
	if cmd.JSON {
		return writeJSONLines(c.out, rows)
	}
	if len(rows) == 0 {
		c.note("no messages")
		return nil
	}
	return writeTable(c.out, rows)
}

// read holds the queue's messages no longer than it takes to read them: what follows may wait for a
// database or a pager.
func (cmd *ListCmd) read(ctx context.Context, config Config, c console) ([]row, error) {
	q, err := openDeadLetters(ctx, config.AMQPURL, c)
	if err != nil {
		return nil, err
	}
	defer q.close()
	var rows []row
	now := time.Now()
	err = q.each(ctx, &selection{all: cmd.Reason == "", reason: cmd.Reason}, func(letters []letter) error {
		for _, l := range letters {
			rows = append(rows, newRow(l, now))
		}
		return nil
	})
	return rows, err
}

func writeJSONLines[T any](w io.Writer, values []T) error {
	encoder := json.NewEncoder(printable.JSON(w))
	encoder.SetEscapeHTML(false) // for people and jq, not for a browser
	for _, v := range values {
		if err := encoder.Encode(v); err != nil {
			return err
		}
	}
	return nil
}

func writeTable(w io.Writer, rows []row) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tTYPE\tREASON\tDELIVERIES\tFIRST DIED\tAGE\tLAST ERROR\tBODY")
	for _, r := range rows {
		died, age := "", ""
		if r.FirstDied != nil {
			died, age = r.FirstDied.Format(time.DateTime), ageText(r.AgeSeconds)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n",
			r.ID, printable.Cell(r.Type, bodyColumn), printable.Cell(r.Reason, bodyColumn), r.Deliveries, died, age,
			printable.Cell(r.LastError, errorColumn), printable.Cell(r.Body, bodyColumn))
	}
	return table.Flush()
}

// ageText is a length of time in its two largest units: 45s, 12m30s, 5h10m, 3d4h.
func ageText(seconds int64) string {
	switch d := seconds; {
	case d < 60:
		return fmt.Sprintf("%ds", d)
	case d < 3600:
		return fmt.Sprintf("%dm%ds", d/60, d%60)
	case d < 86400:
		return fmt.Sprintf("%dh%dm", d/3600, d%3600/60)
	default:
		return fmt.Sprintf("%dd%dh", d/86400, d%86400/3600)
	}
}
