// How is one scenario's network cut without touching anybody else's? Its services reach the broker, and loyalty its
// database, through a toxiproxy that runs inside the runner; the tap and the verdict go to the servers directly.
package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// networkPath is the services' way to one server.
type networkPath struct {
	url    string // what the services get instead of the server's own URL
	proxy  *toxiproxy.Proxy
	silent bool
}

func openPath(serverURL string) (*networkPath, error) {
	u, err := url.Parse(serverURL)
	if err != nil {
		return nil, fmt.Errorf("open a path to a server: %w", err)
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy := toxiproxy.NewProxy(server, u.Scheme, "127.0.0.1:0", u.Host)
	if err := proxy.Start(); err != nil {
		return nil, fmt.Errorf("open a path to %s: %w", u.Host, err)
	}
	u.Host = proxy.Listen // the port is kept when the proxy stops and starts again
	return &networkPath{url: u.String(), proxy: proxy}, nil
}

// cut ends every connection and refuses new ones, as a server that is gone.
func (p *networkPath) cut() { p.proxy.Stop() }

// silence lets connections stand and swallows whatever the services send: nothing arrives, nothing is answered, nothing breaks.
func (p *networkPath) silence() error {
	_, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(
		`{"name": "silence", "type": "timeout", "stream": "upstream", "attributes": {"timeout": 0}}`))
	p.silent = err == nil
	return err
}

// mend opens the path again. Connections that were silenced are closed: what was swallowed is gone for good.
func (p *networkPath) mend(ctx context.Context) error {
	if p.silent {
		p.silent = false
		if err := p.proxy.Toxics.RemoveToxic(ctx, "silence"); err != nil {
			return err
		}
	}
	p.proxy.Stop()
	return p.proxy.Start()
}
