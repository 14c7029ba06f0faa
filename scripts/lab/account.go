package lab

// How does a test get an account of the broker that may do less than everything? By RabbitMQ's HTTP API.

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"
)

// Account is an account of the broker that may do everything in the lab's vhost, until a test changes that.
type Account struct {
	URL  string // AMQP URL of the lab's vhost as this account
	Name string

	lab *Lab
	t   testing.TB
}

// Account makes an account that is removed when the test ends.
func (l *Lab) Account(t testing.TB) *Account {
	t.Helper()
	a := &Account{Name: l.Name + "_account", lab: l, t: t}
	address, err := url.Parse(l.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword(a.Name, "secret")
	a.URL = address.String()
	a.put("/api/users/"+a.Name, `{"password":"secret","tags":""}`)
	t.Cleanup(func() {
		if err := request(context.WithoutCancel(t.Context()), http.MethodDelete, l.ManagementURL, "/api/users/"+a.Name, ""); err != nil {
			t.Error(err)
		}
	})
	a.Permit(".*", ".*", ".*")
	return a
}

// Permit says, by regular expressions, with which queues and exchanges the account may do what.
func (a *Account) Permit(configure, write, read string) {
	a.t.Helper()
	a.put("/api/permissions/"+url.PathEscape(a.lab.Vhost)+"/"+a.Name, fmt.Sprintf(`{"configure":%q,"write":%q,"read":%q}`, configure, write, read))
}

// PermitTopics says with which routing keys the account may publish to a topic exchange.
func (a *Account) PermitTopics(exchange, keys string) {
	a.t.Helper()
	a.put("/api/topic-permissions/"+url.PathEscape(a.lab.Vhost)+"/"+a.Name, fmt.Sprintf(`{"exchange":%q,"write":%q,"read":".*"}`, exchange, keys))
}

// Limit sets one of the account's limits: max-connections or max-channels.
func (a *Account) Limit(name string, value int) {
	a.t.Helper()
	a.put("/api/user-limits/"+a.Name+"/"+name, fmt.Sprintf(`{"value":%d}`, value))
}

// Disconnect ends the account's connections as an operator does.
func (a *Account) Disconnect() {
	a.t.Helper()
	if err := request(a.t.Context(), http.MethodDelete, a.lab.ManagementURL, "/api/connections/username/"+a.Name, ""); err != nil {
		a.t.Fatal(err)
	}
}

func (a *Account) put(path, body string) {
	a.t.Helper()
	if err := request(a.t.Context(), http.MethodPut, a.lab.ManagementURL, path, body); err != nil {
		a.t.Fatal(err)
	}
}
