package servers

// When does a server really answer? PostgreSQL when it has answered a query, RabbitMQ when it has completed an AMQP
// handshake and its HTTP API knows our account; and both only if they are new enough.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	minPostgres = 180000  // server_version_num; uuidv7() came with 18
	minRabbitMQ = "4.3.3" // delayed retry came with 4.3.0, its at-least-once dead-lettering is right since 4.3.3

	startLimit = 90 * time.Second // for one server; a slow disk needs some of it
	askLimit   = 5 * time.Second  // for one question
)

// tooOldError says that a server's version will not do.
type tooOldError struct{ text string }

func (e tooOldError) Error() string { return e.text }

// hopeless tells whether asking again would not help: the server is too old, the URL cannot be used, or PostgreSQL answers
// and refuses the account (class 28) or knows no such database.
func hopeless(err error) bool {
	if errors.As(err, new(tooOldError)) || errors.As(err, new(*pgconn.ParseConfigError)) {
		return true
	}
	answer, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(answer.Code, "28") || answer.Code == "3D000")
}

// Versions are what two servers that answer said they are, e.g. 18.6 and 4.3.6.
type Versions struct{ PostgreSQL, RabbitMQ string }

// check asks both servers once.
func check(ctx context.Context, at URLs) (Versions, error) {
	postgres, err := askPostgres(ctx, at.Database)
	if err != nil {
		return Versions{}, err
	}
	rabbit, err := askRabbitMQ(ctx, at.AMQP, at.Management)
	return Versions{postgres, rabbit}, err
}

// awaitPostgres asks until PostgreSQL answers, the server has ended (alive is false), startLimit is over, or the answer
// shows that waiting is no use.
func awaitPostgres(ctx context.Context, databaseURL string, alive func() bool) error {
	return await(ctx, alive, func(ctx context.Context) error {
		_, err := askPostgres(ctx, databaseURL)
		return err
	})
}

// awaitRabbitMQ does the same for RabbitMQ.
func awaitRabbitMQ(ctx context.Context, amqpURL, managementURL string, alive func() bool) error {
	return await(ctx, alive, func(ctx context.Context) error {
		_, err := askRabbitMQ(ctx, amqpURL, managementURL)
		return err
	})
}

func await(ctx context.Context, alive func() bool, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := ask(ctx)
		switch {
		case err == nil, hopeless(err):
			return err
		case !alive():
			return fmt.Errorf("the server ended while starting (last answer: %w)", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func askPostgres(ctx context.Context, databaseURL string) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return "", fmt.Errorf("PostgreSQL: %w", err)
	}
	defer conn.Close(ctx)

	var number int
	const ask = `SELECT current_setting('server_version_num')::int, split_part(current_setting('server_version'), ' ', 1)`
	if err := conn.QueryRow(ctx, ask).Scan(&number, &version); err != nil {
		return "", fmt.Errorf("PostgreSQL: %w", err)
	}
	if number < minPostgres {
		return "", tooOldError{fmt.Sprintf("PostgreSQL at %s has version %s; %d or newer is needed", conn.Config().Host, version, minPostgres/10000)}
	}
	return version, nil
}

func askRabbitMQ(ctx context.Context, amqpURL, managementURL string) (version string, err error) {
	conn, err := amqp.DialConfig(amqpURL, amqp.Config{Dial: amqp.DefaultDial(askLimit), Heartbeat: askLimit})
	if err != nil {
		return "", fmt.Errorf("RabbitMQ: %w", err)
	}
	defer conn.Close()

	version, _ = conn.Properties["version"].(string)
	if !atLeast(version, minRabbitMQ) {
		return "", tooOldError{fmt.Sprintf("RabbitMQ at %s has version %q; %s or newer is needed", conn.RemoteAddr(), version, minRabbitMQ)}
	}
	return version, askManagement(ctx, managementURL)
}

func askManagement(ctx context.Context, managementURL string) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(managementURL, "/")+"/api/whoami", nil)
	if err != nil {
		if bad, ok := errors.AsType[*url.Error](err); ok {
			err = bad.Err // without the URL, which holds a password
		}
		return fmt.Errorf("RabbitMQ management: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("RabbitMQ management: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("RabbitMQ management at %s answered %s to GET /api/whoami", request.URL.Host, answer.Status)
	}
	return nil
}

// atLeast compares dotted versions number by number, as far as least goes. Of a part like 3-rc, only the number counts.
func atLeast(version, least string) bool {
	have, need := strings.Split(version, "."), strings.Split(least, ".")
	for i := range need {
		got := 0
		if i < len(have) {
			got = leadingNumber(have[i])
		}
		if want := leadingNumber(need[i]); got != want {
			return got > want
		}
	}
	return true
}

func leadingNumber(part string) int {
	digits := strings.IndexFunc(part+".", func(r rune) bool { return r < '0' || r > '9' })
	n, _ := strconv.Atoi(part[:digits])
	return n
}
