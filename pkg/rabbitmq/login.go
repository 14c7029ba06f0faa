package rabbitmq

import (
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// This file logs in such that the broker says why it refuses. By the letter of AMQP 0-9-1 it would close the
// socket instead, after 3 s, which looks like a broker that was just stopped.

// login is one way to log in. The client library writes the capabilities of a connection itself, and asks for the
// response to the login after that: the last moment to add one.
type login struct {
	amqp.Authentication
	properties amqp.Table // of the connection, as it is about to send them
}

func (l login) Response() string {
	if capabilities, ok := l.properties["capabilities"].(amqp.Table); ok {
		capabilities["authentication_failure_close"] = true
	}
	return l.Authentication.Response()
}

// logins are the ways that the URL names, PLAIN if it names none.
func logins(uri amqp.URI, properties amqp.Table) []amqp.Authentication {
	ways := uri.AuthMechanism
	if len(ways) == 0 {
		ways = []string{"PLAIN"}
	}
	var all []amqp.Authentication
	for _, way := range ways {
		switch strings.ToUpper(way) {
		case "PLAIN":
			all = append(all, login{uri.PlainAuth(), properties})
		case "AMQPLAIN":
			all = append(all, login{uri.AMQPlainAuth(), properties})
		case "EXTERNAL":
			all = append(all, login{&amqp.ExternalAuth{}, properties})
		}
	}
	return all
}
