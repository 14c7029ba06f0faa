// Package rabbitmq answers: how does a service reach its broker? It gives out amqp091-go
// connections whose every wait is bounded (socket.go), and leaves their use to the services. Automatic
// recovery stays off: it keeps delivery tags of a dead channel alive, so that an acknowledgement
// can hit another message (facts 2.2). A broken connection ends its session instead.
package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/mod/semver"

	"example.com/outboxlab/pkg/service"
)

const (
	// minServer is the first broker with delayed retry and without two bugs of at-least-once
	// dead-lettering (facts 1.5). An older one takes the queue arguments and ignores them.
	minServer = "v4.3.3"
	// openTimeout bounds dialling, the handshake and the set-up of the channel together.
	openTimeout = 10 * time.Second
	// writeTimeout bounds every write. A broker under a memory alarm stops reading, and the
	// client library has no deadline of its own (facts 2.4).
	writeTimeout = 5 * time.Second
	// closeTimeout bounds the farewell to a broker that may be frozen.
	closeTimeout = 2 * time.Second
	// heartbeat finds a peer that went away without a word: three missed ones end the connection.
	heartbeat = 5 * time.Second
)

// Conn is a connection of the client library with one channel on it. End it with Close, in the package's own way.
type Conn struct {
	*amqp.Connection
	channel *amqp.Channel // nil if there was none to get
	socket  *socket
	ended   chan struct{} // closed with the channel or the connection, whichever ends first
	reason  *amqp.Error   // why; valid once ended is closed (reason.go)
}

// Open opens a connection, which carries name in the broker's lists, and one channel on it, and
// lets setup prepare the channel. All that takes at most 10 s; ctx ends it earlier, and means
// nothing any more once Open has returned. An error that no waiting heals is marked by service.Permanent.
func Open(ctx context.Context, u URL, name string, setup func(*amqp.Channel) error) (*Conn, *amqp.Channel, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	// The library's own waits take no context. Closing the socket under them ends them all.
	keep := func() bool { return true }
	var dialled *socket
	dial := func(network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		keep = context.AfterFunc(ctx, func() { _ = conn.Close() })
		dialled = &socket{Conn: conn}
		return dialled, nil
	}
	c, err := open(u, name, dial, setup)
	if !keep() {
		if err == nil {
			c.Close()
		}
		if err = ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %v", openTimeout)
		}
	}
	if err != nil {
		err = fmt.Errorf("broker: %w", err)
		if noWaitingHeals(err) {
			err = service.Permanent(err)
		}
		return nil, nil, err
	}
	c.socket = dialled
	return c, c.channel, nil
}

func open(u URL, name string, dial func(network, addr string) (net.Conn, error), setup func(*amqp.Channel) error) (*Conn, error) {
	uri, err := amqp.ParseURI(u.raw)
	if err != nil {
		return nil, err
	}
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName(name)
	conn, err := amqp.DialConfig(u.raw, amqp.Config{Heartbeat: heartbeat, Properties: properties, Dial: dial, SASL: logins(uri, properties)})
	if errors.Is(err, amqp.ErrCredentials) || errors.Is(err, amqp.ErrVhost) { // what the library takes a closed socket for
		err = errors.New("connection closed during the login")
	}
	if err != nil {
		return nil, err
	}
	c := &Conn{Connection: conn, ended: make(chan struct{})}
	if err := c.prepare(setup); err != nil {
		err = c.Explain(err)
		c.Close()
		return nil, err
	}
	return c, nil
}

// prepare opens the channel. From then on the session's end is followed, also if it fails.
func (c *Conn) prepare(setup func(*amqp.Channel) error) error {
	connection := c.NotifyClose(make(chan *amqp.Error, 1))
	version, _ := c.Properties["version"].(string)
	if semver.Compare("v"+version, minServer) < 0 {
		go c.follow(connection, nil)
		return service.Permanent(fmt.Errorf("RabbitMQ %s or newer is needed (delayed retry), this server is %q", minServer[1:], version))
	}
	ch, err := c.Channel()
	if err != nil {
		go c.follow(connection, nil)
		return err
	}
	c.channel = ch
	go c.follow(connection, ch.NotifyClose(make(chan *amqp.Error, 1)))
	return setup(ch)
}

// Close ends the connection in order, or without the broker's consent if that does not answer within
// 2 s. What became of the messages on it is known by then or never, so there is no error to return.
func (c *Conn) Close() { _ = c.CloseDeadline(time.Now().Add(closeTimeout)) }
