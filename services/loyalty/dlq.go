package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/term"

	"example.com/outboxlab/pkg/printable"
)

// This file answers: what can a person do with messages that were given up? They lie in the
// dead-letter queue until someone redrives or drops them. Each command has a file of its own; how
// they read the queue and leave it as it was is told in dlq_queue.go.

// DLQ is the command line of `loyalty dlq`.
type DLQ struct {
	List    ListCmd    `cmd:"" help:"List the messages, oldest death first."`
	Show    ShowCmd    `cmd:"" help:"Show all there is to know about one message."`
	Redrive RedriveCmd `cmd:"" help:"Send messages to where they first came from, to be handled again."`
	Export  ExportCmd  `cmd:"" help:"Write whole messages as JSON lines; nothing is removed."`
	Drop    DropCmd    `cmd:"" help:"Remove messages for good."`
}

// dlqCommand is one of them, with its arguments.
type dlqCommand interface {
	// check finds what is wrong with the arguments, before any connection: a service.UsageError.
	check(console) error
	run(ctx context.Context, config Config, c console) error
}

// prepare checks the arguments of the command of that name and returns what runs it, or nil if it is none of dlq.
func (d *DLQ) prepare(name string, stdout io.Writer) (func(context.Context, Config) error, error) {
	command := map[string]dlqCommand{
		"list": &d.List, "show": &d.Show, "redrive": &d.Redrive, "export": &d.Export, "drop": &d.Drop,
	}[name]
	if command == nil {
		return nil, nil
	}
	c := newConsole(stdout)
	return func(ctx context.Context, config Config) error { return command.run(ctx, config, c) }, command.check(c)
}

// console is where a command's results and remarks go, and who can be asked.
type console struct {
	out   io.Writer // results, for the next program in the pipe
	notes io.Writer // progress and remarks, for the person
	// ask puts a question and tells whether the answer was yes; nil where nobody is there to answer.
	ask func(ctx context.Context, question string) (bool, error)
}

// newConsole is the process's own: remarks go to standard error, and questions too, if standard
// input is a terminal. A pipe that is closed at its other end (| head) is an error and not a death, which
// would leave messages in hand.
func newConsole(stdout io.Writer) console {
	signal.Ignore(syscall.SIGPIPE)
	c := console{out: stdout, notes: os.Stderr}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		c.ask = func(ctx context.Context, question string) (bool, error) {
			fmt.Fprint(os.Stderr, question+" [y/N] ")
			return readAnswer(ctx, os.Stdin)
		}
	}
	return c
}

// readAnswer reads one line. Anything but y or yes is a no; so is ctx ending meanwhile.
func readAnswer(ctx context.Context, in io.Reader) (bool, error) {
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n') // no line, no yes
		lines <- line
	}()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case line := <-lines:
		answer := strings.ToLower(strings.TrimSpace(line))
		return answer == "y" || answer == "yes", nil
	}
}

// note writes one remark.
func (c console) note(format string, args ...any) {
	fmt.Fprintln(c.notes, "dlq: "+printable.Sentence(fmt.Sprintf(format, args...)))
}

// messages is a number with its noun: 1 message, 2 messages.
func messages(n int) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}
