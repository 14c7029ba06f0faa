package service

import (
	"fmt"
	"io"

	"github.com/alecthomas/kong"
)

// This file answers: what did the command line ask for?

// ParseArgs fills cli, a struct with kong's tags, from args and returns the command chosen, e.g.
// "place". It returns "" and no error when --help was asked for and printed.
// examples is shown below kong's own help, as it is. A mistake comes back as a UsageError.
func ParseArgs(name, description, examples string, cli any, args []string, stdout io.Writer) (string, error) {
	helped := false
	help := func(options kong.HelpOptions, ctx *kong.Context) error {
		if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
			return err
		}
		_, err := fmt.Fprintf(stdout, "\n%s\n\nConfiguration comes from environment variables: docs/configuration.md lists them.\n", examples)
		return err
	}
	parser, err := kong.New(cli,
		kong.Name(name), kong.Description(description), kong.Help(help),
		kong.Writers(stdout, stdout), kong.Exit(func(int) { helped = true }))
	if err != nil {
		return "", err
	}
	ctx, err := parser.Parse(args)
	if helped {
		return "", nil
	}
	if err != nil {
		return "", Usagef("%w (see %s --help)", err, name)
	}
	return ctx.Selected().Name, nil
}
