package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// This file answers: how does a service speak HTTP, and how is it asked whether it is well?

const (
	// httpGrace is how long requests in flight may take after SIGTERM.
	httpGrace = 5 * time.Second
	// readTimeout bounds how long a client may take to send a request.
	readTimeout = 10 * time.Second
	// probeTimeout bounds one question to /readyz.
	probeTimeout = 2 * time.Second
)

// Ready tells whether a service can do its work now; the error says what is missing.
type Ready func(ctx context.Context) error

// NewRouter makes a router with /healthz (the process runs), /readyz (it can do its work: 200, or
// 503 with the reason) and /metrics (Prometheus), and an API on it whose errors are RFC 9457 problem details. The API
// describes itself at /openapi.json and /docs. HEAD is GET without a body.
func NewRouter(title string, ready Ready, metrics *prometheus.Registry) (http.Handler, huma.API) {
	router := chi.NewMux()
	router.Use(middleware.GetHead)
	router.NotFound(notFound)
	router.MethodNotAllowed(methodNotAllowed(router))
	router.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "ok")
	})
	router.Get("/readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), probeTimeout)
		defer cancel()
		if err := ready(ctx); err != nil {
			writeProblem(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
			return
		}
		_, _ = fmt.Fprintln(w, "ready")
	})
	router.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	config := huma.DefaultConfig(title, "1")
	format := huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: readJSON}
	config.Formats = map[string]huma.Format{"application/json": format, "json": format} // the latter for problem+json
	config.CreateHooks = nil                                                            // no "$schema" member in bodies: they are the contract's, to the letter
	config.DocsPath = ""                                                                // huma's own page loads its program from the internet
	api := humachi.New(router.With(onlyJSON), config)
	router.Get("/docs", docsPage(title, api))
	return router, api
}

// NewMetrics makes a registry that knows the process itself: memory, CPU, goroutines. It belongs to
// one service, not to the process, so that tests can run several side by side.
func NewMetrics() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// Listen opens addr (host:port; port 0 picks a free one) and says where it listens.
func Listen(log *slog.Logger, addr string) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	url := "http://" + listener.Addr().String()
	log.Info("listening on "+url, "url", url)
	return listener, nil
}

// Serve answers requests until ctx ends, then lets the ones in flight finish, for at most 5 s; a
// client that is slower than that is cut off.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadTimeout: readTimeout}
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), httpGrace)
		defer cancel()
		err := server.Shutdown(grace)
		if errors.Is(err, context.DeadlineExceeded) {
			err = server.Close()
		}
		stopped <- err
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// Health is what `NAME health` does, for container images that have no shell and no curl: it asks
// /readyz of the service that listens on the address in the named variable.
func Health(ctx context.Context, getenv func(string) string, variable, defaultAddr string) error {
	addr := cmp.Or(getenv(variable), defaultAddr)
	if addr == "" {
		return Usagef("%s is not set", variable)
	}
	if err := CheckAddr(variable, addr); err != nil {
		return UsageError{err}
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := (&http.Transport{}).RoundTrip(request) // no proxy: it asks its own machine, whatever HTTP_PROXY says
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", response.Status)
	}
	return nil
}
