package servers

// With which database account does each service log in? Its own role's, never the owner's.

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
)

// roles maps a service to its role and to the variable that overrides the role's development password, which is the
// same as its name. `migrations up` creates the roles with these passwords.
var roles = map[string]struct{ name, passwordVariable string }{
	"orders":  {"orders_app", "ORDERS_DB_PASSWORD"},
	"relay":   {"relay_app", "RELAY_DB_PASSWORD"},
	"loyalty": {"loyalty_app", "LOYALTY_DB_PASSWORD"},
}

// DatabaseFor returns the database URL with the account of a service: orders, relay or loyalty.
func (u URLs) DatabaseFor(service string) (string, error) {
	role, known := roles[service]
	if !known {
		return "", &UsageError{fmt.Sprintf("there is no service %q; services are orders, relay and loyalty", service)}
	}
	at, err := url.Parse(u.Database)
	if err != nil {
		return "", fmt.Errorf("the database URL cannot be parsed") // its error would print the password
	}
	at.User = url.UserPassword(role.name, cmp.Or(os.Getenv(role.passwordVariable), role.name))
	return at.String(), nil
}
