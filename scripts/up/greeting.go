package main

// What does a newcomer see when everything runs? Where things are, and three things to try.

import (
	"fmt"
	"net/url"
	"strings"
)

func (s *stage) greet() {
	address := func(name string) string {
		if c := s.children[name]; c.running() && c.address() != "" {
			return c.address()
		}
		return "(not running)"
	}
	crash := "ctrl-C, then: CRASH_AT=relay.after-publish make up"
	if s.commands != nil {
		crash = "type here: relay CRASH_AT=relay.after-publish"
	}
	lines := fmt.Sprintf(`
orders    %[1]s/docs    POST /orders, GET /orders/{id}
loyalty   %[2]s    GET /customers/{id}/points
relay     %[3]s/readyz
RabbitMQ  %[4]s
database  psql '%[5]s'

Three things to try, in another terminal:
1. place an order     curl -i -H 'Content-Type: application/json' -d '{"customerId":101,"totalKzt":12000}' %[1]s/orders
2. see the points     curl %[2]s/customers/101/points
3. lose nothing       %[6]s
                      and place another order: the relay dies after publishing, before it remembers that it did.
                      Start it again: the event is published twice, and awarded once.
ctrl-C ends the services, `+"`make down`"+` the servers too.
`, address("orders"), address("loyalty"), address("relay"), withUser(s.urls.Management), s.urls.Database, crash)
	for line := range strings.Lines(lines) {
		s.transcript.say("up", strings.TrimSuffix(line, "\n"))
	}
}

// withUser moves user and password of a URL behind it, as text for a person who has to log in.
func withUser(address string) string {
	parsed, err := url.Parse(address)
	if err != nil || parsed.User == nil {
		return address
	}
	password, _ := parsed.User.Password()
	login := fmt.Sprintf("    user %s, password %s", parsed.User.Username(), password)
	parsed.User = nil
	return parsed.String() + login
}
