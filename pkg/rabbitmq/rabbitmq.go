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
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/mod/semver"
)

// URL is an AMQP connection URL. It prints itself without the password.
type URL struct{ raw string }

// UnmarshalText accepts amqp://user:password@host:port/vhost, or amqps://.
func (u *URL) UnmarshalText(text []byte) error {
	parsed, err := url.Parse(string(text))
	if err != nil || (parsed.Scheme != "amqp" && parsed.Scheme != "amqps") || parsed.Host == "" {
		return errors.New("must be a URL like amqp://user:password@127.0.0.1:5672/")
	}
	if _, err := amqp.ParseURI(string(text)); err != nil {
		return fmt.Errorf("not a usable AMQP URL: %w", err)
	}
	if port := parsed.Port(); port != "" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil { // the library takes any number
			return fmt.Errorf("not a usable AMQP URL: there is no port %s", port)
		}
	}
	for option, values := range parsed.Query() { // the library takes any
		known, has := options[option]
		if !has || known != nil && !known.MatchString(strings.Join(values, " ")) {
			return fmt.Errorf("not a usable AMQP URL: there is no such option, or not with this value: %.40q", option)
		}
	}
	u.raw = string(text)
	return nil
}

// options are those the client library has, with their values where it does not look at them itself.
var options = map[string]*regexp.Regexp{
	"certfile": nil, "keyfile": nil, "cacertfile": nil, "server_name_indication": nil,
	"auth_mechanism": regexp.MustCompile(`^(?i:plain|amqplain|external)( (?i:plain|amqplain|external))*$`),
	"heartbeat":      nil, "connection_timeout": nil, "channel_max": nil,
}

// String is the URL with its password masked.
func (u URL) String() string {
	parsed, err := url.Parse(u.raw)
	if err != nil {
		return "(unreadable)"
	}
	return parsed.Redacted()
}

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

// Conn is a connection of the client library. End it with Close, in the package's own way.
type Conn struct {
	*amqp.Connection
	socket *socket
}

// Open opens a connection, which carries name in the broker's lists, and one channel on it, and
// lets setup prepare the channel. All that takes at most 10 s; ctx ends it earlier, and means
// nothing any more once Open has returned.
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
	conn, ch, err := open(u, name, dial, setup)
	if !keep() && err == nil {
		closeInOrder(conn)
		err = ctx.Err()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("broker: %w", err)
	}
	return &Conn{conn, dialled}, ch, nil
}

func open(u URL, name string, dial func(network, addr string) (net.Conn, error), setup func(*amqp.Channel) error) (*amqp.Connection, *amqp.Channel, error) {
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName(name)
	conn, err := amqp.DialConfig(u.raw, amqp.Config{Heartbeat: heartbeat, Properties: properties, Dial: dial})
	if err != nil {
		return nil, nil, err
	}
	ch, err := prepare(conn, setup)
	if err != nil {
		closeInOrder(conn)
		return nil, nil, err
	}
	return conn, ch, nil
}

func prepare(conn *amqp.Connection, setup func(*amqp.Channel) error) (*amqp.Channel, error) {
	version, _ := conn.Properties["version"].(string)
	if semver.Compare("v"+version, minServer) < 0 {
		return nil, fmt.Errorf("RabbitMQ %s or newer is needed (delayed retry), this server is %q", minServer[1:], version)
	}
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	return ch, setup(ch)
}

// Close ends the connection in order, or without the broker's consent if that does not answer within
// 2 s. What became of the messages on it is known by then or never, so there is no error to return.
func (c *Conn) Close() { closeInOrder(c.Connection) }

func closeInOrder(conn *amqp.Connection) { _ = conn.CloseDeadline(time.Now().Add(closeTimeout)) }
