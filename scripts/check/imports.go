package main

// Which package may import which? The layout is a claim about dependencies: orders cannot be
// slowed by a broker because it cannot even name one.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
)

const module = "example.com/outboxlab/"

// brokerClients are import path prefixes of everything that speaks to a message broker.
var brokerClients = []string{
	"github.com/rabbitmq/", "github.com/streadway/amqp", "github.com/Azure/go-amqp", "github.com/wagslane/go-rabbitmq",
	"github.com/twmb/franz-go", "github.com/segmentio/kafka-go", "github.com/IBM/sarama", "github.com/confluentinc/",
	"github.com/ThreeDotsLabs/watermill", "github.com/upstash/",
}

// boundary forbids packages below who, themselves or through others, to depend on packages below any of never.
type boundary struct {
	who   string
	never []string
	why   string
}

var boundaries = []boundary{
	{module + "services/orders", brokerClients, "a broker that is down must not be able to touch an order"},
	{module + "services/orders", []string{module + "services/relay", module + "services/loyalty"}, "services talk through events only"},
	{module + "services/relay", []string{module + "services/orders", module + "services/loyalty"}, "services talk through events only"},
	{module + "services/loyalty", []string{module + "services/orders", module + "services/relay"}, "services talk through events only"},
	{module + "services", []string{module + "scripts"}, "what is shipped does not depend on the workbench"},
	{module + "pkg", []string{module + "services", module + "scripts"}, "the shared part does not know who uses it"},
	{module + "migrations", []string{module + "services", module + "scripts"}, "the schema does not know who uses it"},
}

// listed is what `go list` says about one package.
type listed struct {
	ImportPath string
	Deps       []string // all packages it needs, directly or not, tests left aside
}

// checkImports asks the go command about the module in the current directory, since only it
// resolves dependencies; files is not needed.
func checkImports(fs.FS) ([]finding, error) {
	output, err := exec.Command("go", "list", "-json=ImportPath,Deps", module+"...").Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		return nil, fmt.Errorf("go list: %s", failed.Stderr)
	} else if err != nil {
		return nil, err
	}
	var packages []listed
	decoder := json.NewDecoder(strings.NewReader(string(output)))
	for {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return crossed(packages), nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}

// crossed returns one finding for each package that crosses a boundary.
func crossed(packages []listed) (found []finding) {
	for _, p := range packages {
		for _, b := range boundaries {
			if !below(p.ImportPath, b.who) {
				continue
			}
			for _, dependency := range p.Deps {
				if slices.ContainsFunc(b.never, func(prefix string) bool { return below(dependency, prefix) }) {
					found = append(found, finding{what: fmt.Sprintf("%s depends on %s: %s", p.ImportPath, dependency, b.why)})
					break
				}
			}
		}
	}
	return found
}

// below tells whether path is prefix itself or lies under it.
func below(path, prefix string) bool {
	prefix = strings.TrimSuffix(prefix, "/")
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}
