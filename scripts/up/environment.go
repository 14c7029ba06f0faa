package main

// Which variables does a service get? The user's own on top of what playing by hand needs, and
// over both where the servers are: nobody runs as the database's owner by mistake.

import "example.com/outboxlab/scripts/stack/servers"

// defaults hold unless the user has set the variable.
var defaults = []string{"LOG_LEVEL=debug", "RELAY_ADDR=127.0.0.1:8082"}

// environment is the list for exec.Cmd.Env, where the last value of a name wins.
func environment(service string, user []string, at servers.URLs) ([]string, error) {
	database, err := at.DatabaseFor(service)
	if err != nil {
		return nil, err
	}
	all := append(append([]string{}, defaults...), user...)
	all = append(all, "DATABASE_URL="+database)
	if service != "orders" { // orders does not know that there is a broker
		all = append(all, "AMQP_URL="+at.AMQP)
	}
	return all, nil
}
