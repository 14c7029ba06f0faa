package lab

// How does a lab get a vhost? By RabbitMQ's HTTP API; AMQP itself cannot make one.

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"example.com/outboxlab/scripts/stack/servers"
)

// client has a limit for one request: a vhost with many queues takes seconds to delete.
var client = &http.Client{Timeout: 30 * time.Second}

// createVhost makes the vhost and lets the account of the AMQP URL do everything in it.
func createVhost(ctx context.Context, at servers.URLs, vhost string) error {
	if err := request(ctx, http.MethodPut, at.Management, "/api/vhosts/"+url.PathEscape(vhost), `{}`); err != nil {
		return err
	}
	account, err := url.Parse(at.AMQP)
	if err != nil {
		return fmt.Errorf("the AMQP URL cannot be parsed")
	}
	return request(ctx, http.MethodPut, at.Management,
		"/api/permissions/"+url.PathEscape(vhost)+"/"+url.PathEscape(account.User.Username()),
		`{"configure":".*","write":".*","read":".*"}`)
}

func deleteVhost(ctx context.Context, managementURL, vhost string) error {
	return request(ctx, http.MethodDelete, managementURL, "/api/vhosts/"+url.PathEscape(vhost), "")
}

// request sends one request; the account in the URL becomes the basic authentication. To delete what is not there is
// no error.
func request(ctx context.Context, method, managementURL, path, body string) error {
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(managementURL, "/")+path, strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("the management URL cannot be parsed")
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 && !(method == http.MethodDelete && answer.StatusCode == http.StatusNotFound) {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	return nil
}
