package main

import (
	"context"
	"errors"
	"fmt"

	"example.com/outboxlab/pkg/crash"
	"example.com/outboxlab/pkg/service"
)

// This file answers: how does a dead message get another chance, and never get lost on the way? It
// is published anew and removed here only when the broker has it there: publish, confirm and no
// return, then acknowledge. Whoever dies in between leaves two of it, and of two the consumer
// awards one (package inbox).

// RedriveCmd is `loyalty dlq redrive`.
type RedriveCmd struct {
	IDs    []string `arg:"" optional:"" name:"id" help:"The messages."`
	All    bool     `help:"All that are there when the command starts."`
	Reason string   `placeholder:"R" enum:",rejected,delivery_limit,expired,maxlen" default:"" help:"All that died of this: rejected, delivery_limit, expired or maxlen."`
	DryRun bool     `help:"Say what would be sent where, and change nothing."`
}

// Help is the longer text of --help.
func (*RedriveCmd) Help() string {
	return nameHelp + `

A message goes to the exchange from which it came, with its routing key, and so to every queue that is bound there today.
It keeps its id, its properties, its headers and its bytes; only the broker's own counts (x-death and the like) start anew.
It leaves this queue when the broker has confirmed it there. What cannot be delivered stays, with the broker's reason told,
and the exit code is 1. What fails again comes back here. Repair first: a message that can never be handled will only die again.

Examples:

    loyalty dlq redrive 670fd021
    loyalty dlq redrive --reason delivery_limit --dry-run
    loyalty dlq redrive --all`
}

func (cmd *RedriveCmd) check(console) error {
	ways := 0
	for _, given := range []bool{len(cmd.IDs) > 0, cmd.All, cmd.Reason != ""} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return service.Usagef("redrive what? Name messages, or say --all, or --reason R (one of the three)")
	}
	_, err := selectNames(cmd.IDs)
	return err
}

func (cmd *RedriveCmd) run(ctx context.Context, config Config, c console) error {
	selected, err := selectNames(cmd.IDs)
	if err != nil {
		return err
	}
	selected.all, selected.reason = cmd.All, cmd.Reason
	q, err := openDeadLetters(ctx, config.AMQPURL, c)
	if err != nil {
		return err
	}
	defer q.close()
	if cmd.DryRun {
		return dryRun(ctx, q, selected)
	}
	p, err := openPublisher(ctx, config.AMQPURL)
	if err != nil {
		return err
	}
	defer p.close()
	r := &redrive{deadLetters: q, publisher: p}
	err = q.each(ctx, selected, r.send)
	return r.conclude(err)
}

// dryRun prints, of the letters meant, where each would go.
func dryRun(ctx context.Context, q *deadLetters, selected *selection) error {
	n := 0
	err := q.each(ctx, selected, func(letters []letter) error {
		for _, l := range letters {
			exchange, key, err := l.origin()
			if err != nil {
				fmt.Fprintf(q.out, "%s cannot be redriven: %v\n", l.name(), err)
				continue
			}
			n++
			fmt.Fprintf(q.out, "%s would go to exchange %q with key %q\n", l.name(), exchange, key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(q.out, "%s would be redriven; nothing has been changed\n", messages(n))
	return nil
}

// maxComplaints is how many messages that cannot be redriven are named; the rest is counted.
const maxComplaints = 20

// redrive is one run of the command.
type redrive struct {
	*deadLetters
	publisher *publisher
	done      int
	failed    int
}

// send redrives letters, a windowful at most.
func (r *redrive) send(letters []letter) error {
	if len(letters) == 0 {
		return nil
	}
	results, broken := r.publisher.publish(letters)
	var orders []string
	for i, l := range letters {
		if results[i] == nil {
			orders = append(orders, orderOf(l))
		}
	}
	crash.At(crash.LoyaltyRedriveAfterPublish, orders...)
	for i, l := range letters {
		if results[i] != nil {
			r.complain(l, results[i])
			continue
		}
		if err := l.Ack(false); err != nil {
			return fmt.Errorf("%s redriven, but still in the dead-letter queue as well: %w", l.name(), err)
		}
		r.done++
	}
	return broken
}

// orderOf is how crash flags name the letter's order; "" if it does not say which it is.
func orderOf(l letter) string {
	if m, err := decode(l.Delivery); err == nil {
		return m.orderID()
	}
	id, _ := l.Headers["x-aggregate-id"].(string)
	return id
}

func (r *redrive) complain(l letter, err error) {
	if r.failed++; r.failed <= maxComplaints {
		r.note("%s not redriven: %v", l.name(), err)
	}
}

// conclude says what was done, also when err ended it early.
func (r *redrive) conclude(err error) error {
	fmt.Fprintf(r.out, "%s redriven\n", messages(r.done))
	if r.failed > 0 {
		err = errors.Join(fmt.Errorf("%s not redriven, still in the dead-letter queue", messages(r.failed)), err)
	}
	return err
}
