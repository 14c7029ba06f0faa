package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	amqp "github.com/rabbitmq/amqp091-go"
)

// Several test processes start at once on servers that nobody has used yet: all want the template, one makes it. The
// labs share nothing.
func TestLabsMadeAtOnceShareNothing(t *testing.T) {
	for n := range 6 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			l := ForTest(t)

			const insert = `INSERT INTO orders.orders (customer_id, total_kzt) VALUES (101, 500) RETURNING (SELECT count(*) FROM orders.orders)`
			if before := queryInt(t, l.OrdersURL, insert); before != 0 {
				t.Errorf("a new lab holds %d orders", before)
			}
			channel := openChannel(t, l)
			if _, err := channel.QueueDeclarePassive("shared", true, false, false, false, nil); !isNotFound(err) {
				t.Errorf("queue of another lab: %v, want 404", err)
			}
			channel = openChannel(t, l)
			if _, err := channel.QueueDeclare("shared", true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
				t.Error(err)
			}
		})
	}
}

// Every URL logs in with the account that it promises.
func TestLabURLsUseTheirOwnRoles(t *testing.T) {
	t.Parallel()
	l := ForTest(t)
	for role, at := range map[string]string{"orders_app": l.OrdersURL, "relay_app": l.RelayURL, "loyalty_app": l.LoyaltyURL} {
		query := fmt.Sprintf(`SELECT (current_user = '%s' AND current_database() = '%s')::int`, role, l.Name)
		if queryInt(t, at, query) != 1 {
			t.Errorf("%s is not the account or %s not the database of its URL", role, l.Name)
		}
	}
}

// Close removes both, even while somebody is connected, and may be called twice.
func TestCloseRemovesDatabaseAndVhost(t *testing.T) {
	t.Parallel()
	l, err := New(t.Context(), ServersForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	connected, err := pgx.Connect(t.Context(), l.OrdersURL)
	if err != nil {
		t.Fatal(err)
	}
	defer connected.Close(context.Background())
	for range 2 {
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	var pgErr *pgconn.PgError
	if _, err := pgx.Connect(t.Context(), l.OwnerURL); !errors.As(err, &pgErr) || pgErr.Code != "3D000" {
		t.Errorf("connecting to the dropped database: %v, want SQLSTATE 3D000", err)
	}
	answer, err := http.Get(l.ManagementURL + "/api/vhosts/" + l.Vhost)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusNotFound {
		t.Errorf("GET of the deleted vhost: %s, want 404", answer.Status)
	}
}

// A lab that cannot get its vhost leaves no database behind.
func TestFailedLabLeavesNoDatabase(t *testing.T) {
	urls := ServersForTest(t)
	noBroker := urls
	noBroker.Management = "http://127.0.0.1:1"
	_, err := New(t.Context(), noBroker)
	name := regexp.MustCompile(`lab_[0-9a-f]{12}`).FindString(fmt.Sprint(err))
	if name == "" {
		t.Fatalf("error %v, want one that names the vhost", err)
	}
	if queryInt(t, urls.Database, fmt.Sprintf(`SELECT count(*) FROM pg_database WHERE datname = '%s'`, name)) != 0 {
		t.Errorf("database %s is left", name)
	}
}

// Poll fails the test at the deadline, with the last error, and returns at once when the condition holds.
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		Poll(t, time.Minute, "third call", func() (bool, error) { calls++; return calls == 3, nil })
		if calls != 3 {
			t.Errorf("%d calls, want 3", calls)
		}
		failed := &recordingTB{TB: t}
		func() {
			defer func() { _ = recover() }()
			Poll(failed, time.Second, "a miracle", func() (bool, error) { return false, io.EOF })
		}()
		if want := "not within 1s: a miracle (last error: EOF)"; failed.text != want {
			t.Errorf("failed with %q, want %q", failed.text, want)
		}
	})
}

// recordingTB notes the fatal message instead of failing the test.
type recordingTB struct {
	testing.TB
	text string
}

func (r *recordingTB) Fatalf(format string, args ...any) {
	r.text = fmt.Sprintf(format, args...)
	panic(r)
}

func queryInt(t *testing.T, at, query string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func openChannel(t *testing.T, l *Lab) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(l.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return channel
}

func isNotFound(err error) bool {
	var closed *amqp.Error
	return errors.As(err, &closed) && closed.Code == amqp.NotFound
}
