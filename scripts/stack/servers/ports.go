package servers

// Which ports do the native servers listen on, and what if one is taken?

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"syscall"
)

// ports of one pair, all on 127.0.0.1.
type ports struct {
	Postgres     int `json:"postgres"`
	AMQP         int `json:"amqp"`
	Management   int `json:"management"`
	Distribution int `json:"distribution"` // between Erlang nodes; rabbitmqctl is one
	EPMD         int `json:"epmd"`         // Erlang's name service, one of its own for each pair
}

// PortTakenError says which port is in use and which variable chooses another.
type PortTakenError struct {
	Port     int
	Variable string
}

func (e *PortTakenError) Error() string {
	return fmt.Sprintf("port %d on 127.0.0.1 is taken by another program; set %s to a free port", e.Port, e.Variable)
}

// fixed are the ports of the main stack that people type; the same variables and defaults as in compose.yaml.
var fixed = []struct {
	variable string
	what     string
	standard int
	in       func(*ports) *int
}{
	{"POSTGRES_PORT", "PostgreSQL", 55432, func(p *ports) *int { return &p.Postgres }},
	{"AMQP_PORT", "RabbitMQ", 55672, func(p *ports) *int { return &p.AMQP }},
	{"RABBITMQ_MANAGEMENT_PORT", "RabbitMQ management", 55673, func(p *ports) *int { return &p.Management }},
}

// givenPorts reads the main stack's ports from the environment; those that are not set are 0.
func givenPorts() (ports, error) {
	var p ports
	for _, f := range fixed {
		given := os.Getenv(f.variable)
		if given == "" {
			continue
		}
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 || n > 65535 {
			return p, &UsageError{fmt.Sprintf("%s=%s is not a port number (1 to 65535)", f.variable, given)}
		}
		*f.in(&p) = n
	}
	return p, nil
}

// mainPorts chooses where the main stack is to listen: where a variable says, and it is an error if that port is taken; else
// where it listened last, or on the standard port; else, if that is taken (by the stack of another clone, say), on a free
// one, and tells so.
func mainPorts(last ports, progress io.Writer) (ports, error) {
	chosen, err := givenPorts()
	if err != nil {
		return chosen, err
	}
	for _, f := range fixed {
		port := f.in(&chosen)
		given := *port != 0
		*port = cmp.Or(*port, *f.in(&last), f.standard)
		switch err := tryPort(*port); {
		case err == nil:
		case given && errors.Is(err, syscall.EADDRINUSE):
			return chosen, &PortTakenError{*port, f.variable}
		case given:
			return chosen, fmt.Errorf("port %d (%s): %w", *port, f.variable, err)
		default:
			fmt.Fprintf(progress, "port %d is taken by another program, so %s listens on a free one (%s chooses)\n", *port, f.what, f.variable)
			*port = 0
		}
	}
	return chosen, chosen.fillFree()
}

// onFreePorts starts a main stack on the ports chosen for it. Another program can take one of them between the choice
// and the start; then the choice is made again.
func onFreePorts(last ports, progress io.Writer, start func(ports) error) (err error) {
	for range 3 {
		var chosen ports
		if chosen, err = mainPorts(last, progress); err != nil {
			return err
		}
		if err = start(chosen); !errors.Is(err, errAddressInUse) {
			return err
		}
	}
	return err
}

// fillFree chooses free ports for all that are 0. They lie below the range from which the kernel takes the ports of
// outgoing connections, so that a server that is restarted finds its port still free.
func (p *ports) fillFree() error {
	taken := map[int]bool{}
	for _, port := range []*int{&p.Postgres, &p.AMQP, &p.Management, &p.Distribution, &p.EPMD} {
		for tries := 0; *port == 0; tries++ {
			candidate := 20000 + rand.IntN(12000)
			if !taken[candidate] && tryPort(candidate) == nil {
				*port = candidate
			} else if tries == 1000 {
				return errors.New("no free port found between 20000 and 32000 on 127.0.0.1")
			}
		}
		taken[*port] = true
	}
	return nil
}

// tryPort returns nil when a server could listen there now.
func tryPort(port int) error {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	return l.Close()
}

// urls are where a pair on these ports answers, with the development passwords.
func (p ports) urls() URLs { return p.urlsWith(password, password) }

func (p ports) urlsWith(postgresPassword, rabbitPassword string) URLs {
	return URLs{
		Database:   fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/%s?sslmode=disable", user, postgresPassword, p.Postgres, database),
		AMQP:       fmt.Sprintf("amqp://%s:%s@127.0.0.1:%d/", user, rabbitPassword, p.AMQP),
		Management: fmt.Sprintf("http://%s:%s@127.0.0.1:%d", user, rabbitPassword, p.Management),
	}
}
