// Package lab answers: where does one test, or one scenario, play? In a Lab: a database and a vhost of its own on given
// servers, so that everything can run at the same time and in any order.
//
// The database is a copy of a migrated template (template.go), which takes a fraction of a second; the vhost is made by
// RabbitMQ's HTTP API (vhost.go).
package lab

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"

	"example.com/outboxlab/scripts/stack/servers"
)

// Lab is a database, migrated, and an empty vhost.
type Lab struct {
	Name string // unique; also the name of the database and of the vhost, e.g. lab_3f2a90bc61d4

	OwnerURL   string // database URL that may do everything
	OrdersURL  string // as role orders_app
	RelayURL   string // as role relay_app
	LoyaltyURL string // as role loyalty_app

	AMQPURL       string // with the vhost as path
	ManagementURL string // RabbitMQ's HTTP API, without a path; the vhost is part of most requests
	Vhost         string

	servers servers.URLs
}

// New makes a lab on the servers. The accounts in urls must be allowed to create databases, roles and vhosts. Close it
// when done; what a killed process leaves is called lab_… in both servers.
func New(ctx context.Context, urls servers.URLs) (*Lab, error) {
	l, err := describe(urls)
	if err != nil {
		return nil, err
	}
	if err := cloneTemplate(ctx, urls.Database, l.Name); err != nil {
		return nil, fmt.Errorf("database %s: %w", l.Name, err)
	}
	if err := createVhost(ctx, urls, l.Vhost); err != nil {
		return nil, errors.Join(fmt.Errorf("vhost %s: %w", l.Vhost, err), dropDatabase(context.WithoutCancel(ctx), urls.Database, l.Name))
	}
	return l, nil
}

// Close drops the database, with whoever is still connected, and the vhost.
func (l *Lab) Close(ctx context.Context) error {
	return errors.Join(
		dropDatabase(ctx, l.servers.Database, l.Name),
		deleteVhost(ctx, l.ManagementURL, l.Vhost))
}

// describe chooses a name and derives all URLs from it; nothing exists yet.
func describe(urls servers.URLs) (*Lab, error) {
	random := make([]byte, 6)
	if _, err := rand.Read(random); err != nil {
		return nil, err
	}
	name := "lab_" + hex.EncodeToString(random)
	owner, dbErr := withPath(urls.Database, name)
	broker, amqpErr := withPath(urls.AMQP, name)
	if err := errors.Join(dbErr, amqpErr); err != nil {
		return nil, err
	}

	l := &Lab{Name: name, OwnerURL: owner, AMQPURL: broker, ManagementURL: urls.Management, Vhost: name, servers: urls}
	var errs [3]error
	roles := servers.URLs{Database: owner}
	l.OrdersURL, errs[0] = roles.DatabaseFor("orders")
	l.RelayURL, errs[1] = roles.DatabaseFor("relay")
	l.LoyaltyURL, errs[2] = roles.DatabaseFor("loyalty")
	return l, errors.Join(errs[:]...)
}

// withPath replaces the path of a URL, which is where both kinds of URL keep the name.
func withPath(address, name string) (string, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return "", errors.New("a server's URL cannot be parsed") // the error itself would print the password
	}
	parsed.Path, parsed.RawPath = "/"+name, ""
	return parsed.String(), nil
}
