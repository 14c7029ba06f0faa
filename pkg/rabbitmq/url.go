package rabbitmq

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// This file reads AMQP_URL, and refuses what would only fail when a connection is made.

// URL is an AMQP connection URL. It prints itself without the password.
type URL struct{ raw string }

var errNoURL = errors.New("must be a URL like amqp://user:password@127.0.0.1:5672/; " +
	"what is not a letter or a digit in user or password must be percent-encoded, e.g. @ as %40")

// UnmarshalText accepts amqp://user:password@host:port/vhost, or amqps://. Its errors quote nothing that can be
// a part of the password.
func (u *URL) UnmarshalText(text []byte) error {
	parsed, err := url.Parse(string(text))
	if err != nil || (parsed.Scheme != "amqp" && parsed.Scheme != "amqps") || parsed.Host == "" || cutsPassword(parsed) {
		return errNoURL
	}
	if port := parsed.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 { // the library takes any number
			return errors.New("not a usable AMQP URL: the port must be a number from 1 to 65535")
		}
	}
	uri, err := amqp.ParseURI(string(text))
	if err != nil {
		return fmt.Errorf("not a usable AMQP URL: %w", err)
	}
	for option, values := range parsed.Query() { // the library takes any
		known, has := options[option]
		if !has || len(values) > 1 && known == nil || values[0] == "" || known != nil && !known.MatchString(strings.Join(values, " ")) {
			return fmt.Errorf("not a usable AMQP URL: there is no such option, or not with this value: %.40q", option)
		}
	}
	if err := checkFiles(uri); err != nil {
		return fmt.Errorf("not a usable AMQP URL: %w", err)
	}
	u.raw = string(text)
	return nil
}

// cutsPassword tells whether the URL was read in another way than it was meant: a raw / ? or # in the password
// ends the part that has it, and the rest, up to the @ before the host, is taken for a path and printed as such.
func cutsPassword(u *url.URL) bool {
	return u.Fragment != "" || strings.Contains(u.EscapedPath()+u.RawQuery, "@")
}

// options are those the client library has, with their values where it does not look at them itself.
var options = map[string]*regexp.Regexp{
	"certfile": nil, "keyfile": nil, "cacertfile": nil, "server_name_indication": nil,
	"auth_mechanism": regexp.MustCompile(`^(?i:plain|amqplain|external)( (?i:plain|amqplain|external))*$`),
	"heartbeat":      nil, "connection_timeout": nil, "channel_max": nil,
}

// checkFiles reads the files that the URL names. The library does so at each connection, passes over a file
// without a certificate, and over a certificate without its key.
func checkFiles(uri amqp.URI) error {
	if uri.CACertFile != "" {
		pem, err := os.ReadFile(uri.CACertFile)
		if err != nil {
			return fmt.Errorf("cacertfile: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			return fmt.Errorf("cacertfile: there is no certificate (PEM) in %s", uri.CACertFile)
		}
	}
	if (uri.CertFile == "") != (uri.KeyFile == "") {
		return errors.New("certfile and keyfile go together")
	}
	if uri.CertFile == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(uri.CertFile, uri.KeyFile); err != nil {
		return fmt.Errorf("certfile, keyfile: %w", err)
	}
	return nil
}

// String is the URL with its password masked.
func (u URL) String() string {
	parsed, err := url.Parse(u.raw)
	if err != nil {
		return "(unreadable)"
	}
	return parsed.Redacted()
}
