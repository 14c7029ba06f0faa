package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"example.com/outboxlab/pkg/service"
)

// This file answers: how is a dead message removed for good? By name only, after it has been found
// and a person, or --yes, has said so.

// DropCmd is `loyalty dlq drop`.
type DropCmd struct {
	IDs []string `arg:"" name:"id" help:"The messages."`
	Yes bool     `help:"Do not ask. Needed where nobody can be asked: in scripts, in pipes."`
}

// Help is the longer text of --help.
func (*DropCmd) Help() string {
	return nameHelp + `

A dropped order is never awarded. If any of the messages is not there, none is dropped.

Examples:

    loyalty dlq drop 670fd021
    loyalty dlq export 670fd021 --to kept.jsonl && loyalty dlq drop --yes 670fd021`
}

func (cmd *DropCmd) check(c console) error {
	if !cmd.Yes && c.ask == nil {
		return service.Usagef("drop removes messages for good, and there is no terminal to ask on: say --yes")
	}
	_, err := selectNames(cmd.IDs)
	return err
}

func (cmd *DropCmd) run(ctx context.Context, config Config, c console) error {
	if !cmd.Yes {
		if err := cmd.confirm(ctx, config, c); err != nil {
			return err
		}
	}
	selected, err := selectNames(cmd.IDs)
	if err != nil {
		return err
	}
	q, err := openDeadLetters(ctx, config.AMQPURL, c)
	if err != nil {
		return err
	}
	defer q.close()
	n := 0
	err = q.each(ctx, selected, func(letters []letter) error {
		for _, l := range letters {
			if err := l.Ack(false); err != nil {
				return fmt.Errorf("not dropped: %s: %w", l.name(), err)
			}
			n++
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "%s dropped\n", messages(n))
	return nil
}

// confirm shows the messages and asks. They are back in the queue meanwhile: the answer may take its time.
func (cmd *DropCmd) confirm(ctx context.Context, config Config, c console) error {
	letters, err := readNamed(ctx, config, c, cmd.IDs)
	if err != nil {
		return err
	}
	var table strings.Builder
	if err := writeTable(&table, rowsOf(letters)); err != nil {
		return err
	}
	fmt.Fprint(c.notes, table.String())
	yes, err := c.ask(ctx, fmt.Sprintf("Drop %s for good?", messages(len(letters))))
	if err == nil && !yes {
		err = errors.New("nothing dropped")
	}
	return err
}
