package main

// What can be typed while the services run? The name of a service, to start it (again), with
// variables for it behind: `relay CRASH_AT=relay.after-publish`.

import (
	"bufio"
	"io"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// command is one line typed: a service to start and its variables, or what is wrong with the line.
type command struct {
	service   string
	variables []string
	problem   string
}

// readCommands reads lines until the end of input.
func readCommands(keyboard io.Reader) <-chan command {
	// In the background (`make up &`) reading from the terminal would stop the whole program;
	// ignored, the read fails instead and the keyboard is simply not there.
	signal.Ignore(syscall.SIGTTIN)
	commands := make(chan command)
	go func() {
		defer close(commands)
		lines := bufio.NewScanner(keyboard)
		for lines.Scan() {
			if fields := strings.Fields(lines.Text()); len(fields) > 0 {
				commands <- parseCommand(fields)
			}
		}
	}()
	return commands
}

func parseCommand(fields []string) command {
	if !slices.Contains(cast, fields[0]) {
		return command{problem: "type orders, relay or loyalty to start one again, with variables behind if you like: relay CRASH_AT=relay.after-publish"}
	}
	for _, variable := range fields[1:] {
		if name, _, found := strings.Cut(variable, "="); !found || name == "" {
			return command{problem: variable + " is not NAME=value"}
		}
	}
	return command{service: fields[0], variables: fields[1:]}
}
