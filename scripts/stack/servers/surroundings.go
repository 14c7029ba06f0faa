package servers

// Which variables of the user's own shell must not reach the lab? Those that redirect a PostgreSQL client. The lab's
// servers are known by their URLs, also those given by STACK=external, and nothing else may have a say in how they are reached.

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// clientVariable matches what psql, libpq and pgx read: PGSERVICE, PGHOST, PGOPTIONS, PGCONNECT_TIMEOUT, … A name like
// PGADMIN_SETUP_EMAIL is another program's. PGDATA is the server's, and ours is told its directory.
var clientVariable = regexp.MustCompile(`^PG[A-Z]+(_TIMEOUT)?$`)

// ignored are those that were set when this process began.
var ignored []string

// Every process of the workbench uses this package: tools and tests. It forgets the variables before its first connection, for
// itself and for what it starts. With PGSERVICE naming a service that is nowhere, no connection would be possible; with PGOPTIONS or
// PGTARGETSESSIONATTRS another one than the URL says.
func init() {
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if clientVariable.MatchString(name) && name != "PGDATA" {
			ignored = append(ignored, name)
			_ = os.Unsetenv(name) // it fails for names that are none
		}
	}
	slices.Sort(ignored)
}

// Ignored names the variables of a PostgreSQL client that were set and have no effect here, sorted.
func Ignored() []string { return ignored }

// noteIgnored says so, if there are any.
func noteIgnored() string {
	if len(ignored) == 0 {
		return ""
	}
	return fmt.Sprintf("not used here: %s (the URL says all; `eval \"$(go run ./scripts/stack env)\"` unsets them in your shell, too)", strings.Join(ignored, ", "))
}
