package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/service"
)

// This file answers: how does one take whole dead messages elsewhere, to study or to keep them?

// ExportCmd is `loyalty dlq export`.
type ExportCmd struct {
	IDs []string `arg:"" optional:"" name:"id" help:"The messages."`
	All bool     `help:"All that are there."`
	To  string   `placeholder:"FILE" help:"Write to this file, which must not exist yet, instead of standard output."`
}

// Help is the longer text of --help.
func (*ExportCmd) Help() string {
	return nameHelp + `

One JSON object per line and message. "exchange" and "routingKey" are where it was published, "properties" and "headers"
what AMQP carries besides the body. The body is in "body" if it is text (UTF-8), else in "bodyBase64": exact to the byte
either way. Header values that JSON has no form for are written as text. Nothing is removed from the queue.

Examples:

    loyalty dlq export --all --to dead.jsonl
    loyalty dlq export 670fd021 | jq .headers
    loyalty dlq export --all | jq -r 'select(.reason == "rejected") | .body'`
}

func (cmd *ExportCmd) check(console) error {
	if cmd.All == (len(cmd.IDs) > 0) {
		return service.Usagef("export what? Name messages, or say --all")
	}
	_, err := selectNames(cmd.IDs)
	return err
}

func (cmd *ExportCmd) run(ctx context.Context, config Config, c console) error {
	if cmd.To == "" {
		_, err := cmd.export(ctx, config, c)
		return err
	}
	// Never over an export made before: its messages may have been dropped since.
	file, err := os.OpenFile(cmd.To, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	c.out = file
	n, err := cmd.export(ctx, config, c)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(cmd.To))
	}
	c.note("%s written to %s", messages(n), cmd.To)
	return nil
}

func (cmd *ExportCmd) export(ctx context.Context, config Config, c console) (n int, err error) {
	selected, err := selectNames(cmd.IDs)
	if err != nil {
		return 0, err
	}
	selected.all = cmd.All
	q, err := openDeadLetters(ctx, config.AMQPURL, c)
	if err != nil {
		return 0, err
	}
	defer q.close()
	err = q.each(ctx, selected, func(letters []letter) error {
		n += len(letters)
		return writeExports(c.out, letters)
	})
	return n, err
}

func writeExports(w io.Writer, letters []letter) error {
	whole := make([]exported, len(letters))
	for i, l := range letters {
		whole[i] = newExported(l)
	}
	return writeJSONLines(w, whole)
}

// exported is a whole message.
type exported struct {
	ID         string         `json:"id"`
	Handle     string         `json:"handle"`
	Exchange   string         `json:"exchange"`
	RoutingKey string         `json:"routingKey"`
	Reason     string         `json:"reason"`
	FirstDied  time.Time      `json:"firstDied,omitzero"`
	Deliveries int64          `json:"deliveries"`
	Properties properties     `json:"properties"`
	Headers    map[string]any `json:"headers"`
	Body       *string        `json:"body,omitempty"`
	BodyBase64 []byte         `json:"bodyBase64,omitempty"`
}

// properties are those of AMQP, under its names in JSON's spelling; absent ones are left out.
type properties struct {
	MessageID       string    `json:"messageId,omitempty"`
	Type            string    `json:"type,omitempty"`
	ContentType     string    `json:"contentType,omitempty"`
	ContentEncoding string    `json:"contentEncoding,omitempty"`
	DeliveryMode    uint8     `json:"deliveryMode,omitempty"` // 2 = persistent
	Priority        uint8     `json:"priority,omitempty"`
	CorrelationID   string    `json:"correlationId,omitempty"`
	ReplyTo         string    `json:"replyTo,omitempty"`
	Expiration      string    `json:"expiration,omitempty"` // milliseconds
	Timestamp       time.Time `json:"timestamp,omitzero"`
	UserID          string    `json:"userId,omitempty"`
	AppID           string    `json:"appId,omitempty"`
}

func newExported(l letter) exported {
	last, _ := l.lastDeath()
	exchange, key, _ := l.origin() // empty if it has none
	e := exported{
		ID: l.name(), Handle: l.handle(), Exchange: exchange, RoutingKey: key,
		Reason: last.reason, FirstDied: l.firstDied().UTC(), Deliveries: l.failedDeliveries(),
		Properties: properties{
			l.MessageId, l.Type, l.ContentType, l.ContentEncoding, l.DeliveryMode, l.Priority,
			l.CorrelationId, l.ReplyTo, l.Expiration, l.Timestamp.UTC(), l.UserId, l.AppId,
		},
		Headers: plain(l.Headers).(map[string]any),
	}
	if utf8.Valid(l.Body) {
		text := string(l.Body)
		e.Body = &text
	} else {
		e.BodyBase64 = l.Body
	}
	return e
}

// plain turns a header value into one that encoding/json can write.
func plain(v any) any {
	switch v := v.(type) {
	case amqp.Table:
		object := map[string]any{}
		for name, value := range v {
			object[name] = plain(value)
		}
		return object
	case []any:
		list := make([]any, len(v))
		for i, value := range v {
			list[i] = plain(value)
		}
		return list
	case float32:
		return plain(float64(v))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprint(v)
		}
	}
	return v
}
