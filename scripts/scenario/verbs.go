// What can happen in a story? This table is the whole language: each verb compiles its arguments, once and before
// anything runs, into an action. The conditions that await and expect judge are in condition.go.
package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/outboxlab/scripts/wait"
)

// action performs one step; its error ends the story.
type action func(ctx context.Context, s *stage) error

// verb is one word of the language.
type verb struct {
	name, usage, meaning string
	compile              func(args []string) (action, error)
}

// verbs in the order of --help. It is filled in init because the verbs' code refers back to it for usage errors.
var verbs []verb

func init() {
	verbs = []verb{
		{"start", "start SERVICE [as NAME] [VARIABLE=VALUE …]", "run a service and wait until it is ready", compileStart},
		{"start", "start SERVICE [as NAME] [VARIABLE=VALUE …] restarting", "the same, and start it again whenever it dies", compileStart},
		{"stop", "stop NAME", "SIGTERM, also while it holds at a crash point (it is released then); expects exit code 0", compileStop},
		{"release", "release NAME", "SIGUSR1: the service goes on from the crash point at which it holds (CRASH_AT=…=hold)", compileRelease},
		{"kill", "kill NAME", "SIGKILL, wherever the process happens to be", compileKill},
		{"freeze", "freeze NAME", "SIGSTOP: the whole process; where it stands is certain only while it holds at a crash point", compileFreeze},
		{"thaw", "thaw NAME", "SIGCONT", compileThaw},
		{"crash", "crash SERVICE [ARGUMENT …] at POINT", "run a service until it dies at that crash point; expects exit code 1", compileCrash},
		{"dead", "dead NAME at POINT", "the service, started with CRASH_AT, dies there by itself; expects exit code 1", compileDead},
		{"run", "run SERVICE ARGUMENT …", "run a command to its end; expects exit code 0", compileRun},
		{"place", "place CUSTOMER TOTAL [unanswered]", "order over HTTP; expects 201, or (unanswered) a connection that breaks", compilePlace},
		{"place", "place N orders [over DURATION] [meanwhile] [persistently]", "N orders by ten customers; meanwhile: the story goes on; persistently: refused ones again", compilePlace},
		{"await", "await CONDITION [while CONDITION]", "wait until it holds; the other must hold all the while", compileAwait},
		{"expect", "expect CONDITION", "it must hold now", compileExpect},
		{"sql", "sql STATEMENT", "run it as the owner of the database", compileSQL},
		{"session", "session LETTER STATEMENT", "run it on a connection that lasts, so that a transaction can stay open", compileSession},
		{"broker", "broker cut|silent|mend", "end the scenario's network path to the broker; swallow what is sent on it; restore it", compileBroker},
		{"broker", "broker unbind|bind", "take the loyalty queue off the exchange, so that no event has anywhere to go; put it back", compileBroker},
		{"broker", "broker alarm|calm", "raise the broker's memory alarm; let it go (own-servers only)", compileBroker},
		{"database", "database cut|mend", "end the loyalty service's network path to its database; restore it", compileDatabase},
		{"dead-letters", "dead-letters unbind|bind", "take the dead-letter queue off its exchange, so that what dies has nowhere to go; put it back", compileDeadLetters},
		{"dead-letters", "dead-letters retry-every DURATION", "how long the server waits before it tries that again, of queues declared later (own-servers only)", compileDeadLetters},
		{"publish", "publish every event N times", "by hand, straight to the exchange, each event of the outbox", compilePublish},
		{"restart", "restart postgres|rabbitmq", "kill that server and start it again (own-servers only)", compileRestart},
	}
}

// compile turns the words of a step into an action.
func compile(word, rest string) (action, error) {
	i := slices.IndexFunc(verbs, func(v verb) bool { return v.name == word })
	if i < 0 {
		return nil, fmt.Errorf("no verb is called %q; --help lists them", word)
	}
	args := strings.Fields(rest)
	if word == "sql" || word == "session" {
		args = []string{rest} // a statement is one argument, quotes and all
	}
	act, err := verbs[i].compile(args)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", word, err)
	}
	return act, nil
}

// usage is the error for wrong arguments: all the forms of a verb.
func usage(name string) error {
	var forms []string
	for _, v := range verbs {
		if v.name == name {
			forms = append(forms, v.usage)
		}
	}
	return fmt.Errorf("usage: %s", strings.Join(forms, "  or  "))
}

func compileAwait(args []string) (action, error) {
	w := waiting{within: wait.Limit, every: pollEvery}
	if i := slices.Index(args, "while"); i >= 0 {
		throughout, err := parseCondition(args[i+1:])
		if err != nil {
			return nil, err
		}
		w.while, w.whileWords, args = throughout, strings.Join(args[i+1:], " "), args[:i]
	}
	cond, err := parseCondition(args)
	if err != nil {
		return nil, err
	}
	w.cond, w.words = cond, strings.Join(args, " ")
	return func(ctx context.Context, s *stage) error {
		began := time.Now()
		found, err := s.await(ctx, w)
		if err != nil {
			return err
		}
		s.out.note("%s, after %.1f s", found, time.Since(began).Seconds())
		return nil
	}, nil
}

func compileExpect(args []string) (action, error) {
	cond, err := parseCondition(args)
	if err != nil {
		return nil, err
	}
	words := strings.Join(args, " ")
	return func(ctx context.Context, s *stage) error {
		ok, found, err := cond.holds(ctx, s)
		if err != nil || !ok {
			return &unmet{words: words, found: found, err: err}
		}
		s.out.flush()
		s.out.pass(words)
		return nil
	}, nil
}

func compileSQL(args []string) (action, error) {
	if args[0] == "" {
		return nil, usage("sql")
	}
	return func(ctx context.Context, s *stage) error {
		tag, err := s.db.Exec(ctx, args[0])
		if err != nil {
			return err
		}
		s.out.note("%s", tag)
		return nil
	}, nil
}

func compileRestart(args []string) (action, error) {
	if len(args) != 1 || !slices.Contains([]string{"postgres", "rabbitmq"}, args[0]) {
		return nil, usage("restart")
	}
	return func(ctx context.Context, s *stage) error {
		began := time.Now()
		restart := s.pair.RestartPostgres
		if args[0] == "rabbitmq" {
			s.consumersLost()
			restart = s.pair.RestartRabbitMQ
		}
		if err := restart(ctx); err != nil {
			return err
		}
		s.out.note("killed, and back after %.1f s", time.Since(began).Seconds())
		return nil
	}, nil
}
