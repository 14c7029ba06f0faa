package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/outboxlab/pkg/service"
	"example.com/outboxlab/scripts/lab"
)

// start runs orders on a lab and returns its URL and a look into its database.
func start(t *testing.T) (string, *pgxpool.Pool) {
	t.Helper()
	l := lab.ForTest(t)
	r := lab.Start(t, run, map[string]string{"DATABASE_URL": l.OrdersURL, "ORDERS_ADDR": "127.0.0.1:0", "LOG_LEVEL": "debug"})
	return r.URL(), l.Owner(t)
}

type reply struct {
	status int
	header http.Header
	body   string
}

func post(t *testing.T, url, body string, header ...string) reply {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	return do(t, request)
}

func get(t *testing.T, url string) reply {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return do(t, request)
}

func do(t *testing.T, request *http.Request) reply {
	t.Helper()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, string(body)}
}

func TestAnOrderIsSavedWithItsEvent(t *testing.T) {
	t.Parallel()
	url, db := start(t)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	placed := post(t, url+"/orders", `{"customerId":9007199254740993,"totalKzt":12000}`, "traceparent", trace)
	if placed.status != http.StatusCreated || placed.header.Get("Location") != "/orders/1" {
		t.Fatalf("%+v", placed)
	}
	var order struct{ ID, CustomerID, TotalKZT int64 }
	if err := json.Unmarshal([]byte(placed.body), &order); err != nil || order.ID != 1 || order.CustomerID != 9007199254740993 || order.TotalKZT != 12000 {
		t.Errorf("%s (%v)", placed.body, err)
	}
	if found := get(t, url+placed.header.Get("Location")); found.status != http.StatusOK || found.body != placed.body {
		t.Errorf("found %+v, placed %+v", found, placed)
	}
	event := lab.One[string](t, db, `SELECT concat_ws(' ', aggregate_type, aggregate_id, event_type, event_version, traceparent, payload) FROM orders.outbox`)
	want := `order 1 order.placed 1 ` + trace + ` {"orderId": 1, "totalKzt": 12000, "customerId": 9007199254740993}`
	if event != want {
		t.Errorf("event\n%s, want\n%s", event, want)
	}
}

func TestATraceContextThatIsNoneIsDropped(t *testing.T) {
	t.Parallel()
	url, db := start(t)
	for _, trace := range []string{"00-zz", "00-00000000000000000000000000000000-b7ad6b7169203331-01", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"} {
		post(t, url+"/orders", `{"customerId":1,"totalKzt":1}`, "traceparent", trace)
	}
	for _, got := range lab.All[string](t, db, `SELECT traceparent FROM orders.outbox`) {
		if got != "" {
			t.Errorf("kept %q", got)
		}
	}
}

func TestBadInputIsAProblemThatNamesTheField(t *testing.T) {
	t.Parallel()
	url, db := start(t)
	for _, c := range []struct {
		name, body string
		status     int
		says       string
	}{
		{"a member missing", `{"customerId":101}`, 422, "totalKzt"},
		{"an unknown member", `{"customerId":101,"totalKzt":5,"colour":"red"}`, 422, "colour"},
		{"another case", `{"customerid":101,"totalKzt":5}`, 422, "customerId"},
		{"a negative total", `{"customerId":101,"totalKzt":-5}`, 422, "totalKzt"},
		{"zero", `{"customerId":101,"totalKzt":0}`, 422, "totalKzt"},
		{"a fraction", `{"customerId":101,"totalKzt":1.5}`, 422, "totalKzt"},
		{"too much", `{"customerId":101,"totalKzt":2147483648}`, 422, "totalKzt"},
		{"far too much", `{"customerId":101,"totalKzt":1e20}`, 422, "totalKzt"},
		{"beyond any number", `{"customerId":1e999,"totalKzt":5}`, 400, "customerId"},
		{"an id beyond int64", `{"customerId":9223372036854775808,"totalKzt":5}`, 422, "customerId"},
		{"text for a number", `{"customerId":"x","totalKzt":5}`, 422, "customerId"},
		{"null", `{"customerId":101,"totalKzt":null}`, 422, "totalKzt"},
		{"a list", `[]`, 422, "body"},
		{"not JSON", `nope`, 400, "body"},
		{"half JSON", `{"customerId":101,`, 400, "body"},
		{"nothing", ``, 400, "body"},
		{"9 MB", `{"customerId":101,"totalKzt":5,"note":"` + strings.Repeat("x", 9<<20) + `"}`, 413, "too large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := post(t, url+"/orders", c.body)
			if got.status != c.status || got.header.Get("Content-Type") != "application/problem+json" || !strings.Contains(got.body, c.says) {
				t.Errorf("want %d and %q, got %+v", c.status, c.says, got)
			}
		})
	}
	if n := lab.One[int64](t, db, `SELECT (SELECT count(*) FROM orders.orders) + (SELECT count(*) FROM orders.outbox)`); n != 0 {
		t.Errorf("%d rows written", n)
	}
}

func TestEveryErrorIsAProblem(t *testing.T) {
	t.Parallel()
	url, _ := start(t)
	for path, status := range map[string]int{"/orders/999": 404, "/orders/x": 422, "/orders/0": 422, "/nowhere": 404, "/orders": 405} {
		if got := get(t, url+path); got.status != status || got.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

func TestWithoutItsDatabaseItIsNotReadyAndSaysSo(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	r := lab.Start(t, run, map[string]string{"DATABASE_URL": l.OrdersURL, "ORDERS_ADDR": "127.0.0.1:0"})
	if got := get(t, r.URL()+"/readyz"); got.status != http.StatusOK {
		t.Fatalf("before: %+v", got)
	}
	restore := l.CutDatabase(t)
	if got := get(t, r.URL()+"/readyz"); got.status != http.StatusServiceUnavailable {
		t.Errorf("ready without a database: %+v", got)
	}
	if got := get(t, r.URL()+"/healthz"); got.status != http.StatusOK {
		t.Errorf("the process is well: %+v", got)
	}
	got := post(t, r.URL()+"/orders", `{"customerId":1,"totalKzt":1}`)
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("order: %+v", got)
	}
	restore()
	if got := post(t, r.URL()+"/orders", `{"customerId":1,"totalKzt":1}`); got.status != http.StatusCreated {
		t.Errorf("after: %+v", got)
	}
	if err := r.Stop(); err != nil {
		t.Errorf("stopped with %v", err)
	}
}

func TestAServerThatOnlyReadsIsNotReady(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	lab.Exec(t, l.Owner(t), `ALTER DATABASE `+l.Name+` SET default_transaction_read_only = on`)
	r := lab.Start(t, run, map[string]string{"DATABASE_URL": l.OrdersURL, "ORDERS_ADDR": "127.0.0.1:0"})
	if got := get(t, r.URL()+"/readyz"); got.status != http.StatusServiceUnavailable {
		t.Errorf("%+v", got)
	}
}

func TestPlacePrintsItsLine(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t)
	printed, err := lab.Run(t, run, map[string]string{"DATABASE_URL": l.OrdersURL, "LOG_LEVEL": "error"}, "place", "101", "12000")
	if err != nil || printed != "[orders] order 1 saved, event written to outbox\n" {
		t.Errorf("%q, %v", printed, err)
	}
}

func TestWrongUsageIsFoundBeforeAnyConnection(t *testing.T) {
	t.Parallel()
	const url = "postgres://u:secret@127.0.0.1:1/d"
	for name, c := range map[string]struct {
		env  map[string]string
		args string
		says string
	}{
		"total 0":              {map[string]string{"DATABASE_URL": url}, "place 101 0", "total"},
		"negative total":       {map[string]string{"DATABASE_URL": url}, "place 101 -- -5", "total"},
		"customer x":           {map[string]string{"DATABASE_URL": url}, "place x 5", "customer"},
		"no total":             {map[string]string{"DATABASE_URL": url}, "place 101", "total"},
		"total beyond integer": {map[string]string{"DATABASE_URL": url}, "place 101 2147483648", "total"},
		"unknown command":      {map[string]string{"DATABASE_URL": url}, "steal", "steal"},
		"no DATABASE_URL":      {nil, "serve", "DATABASE_URL"},
		"not a URL":            {map[string]string{"DATABASE_URL": "nonsense"}, "serve", "DATABASE_URL"},
		"a bad port":           {map[string]string{"DATABASE_URL": "postgres://u:secret@h:x/d"}, "serve", "DATABASE_URL"},
		"unknown crash point":  {map[string]string{"DATABASE_URL": url, "CRASH_AT": "nowhere"}, "serve", "CRASH_AT"},
		"unknown --crash-at":   {map[string]string{"DATABASE_URL": url}, "serve --crash-at nowhere", "--crash-at"},
		"unknown level":        {map[string]string{"DATABASE_URL": url, "LOG_LEVEL": "loud"}, "serve", "LOG_LEVEL"},
		"unknown format":       {map[string]string{"DATABASE_URL": url, "LOG_FORMAT": "xml"}, "serve", "LOG_FORMAT"},
		"no port":              {map[string]string{"DATABASE_URL": url, "ORDERS_ADDR": "here"}, "serve", "ORDERS_ADDR"},
	} {
		t.Run(name, func(t *testing.T) {
			printed, err := lab.Run(t, run, c.env, strings.Fields(c.args)...)
			if !errors.As(err, new(service.UsageError)) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
				t.Errorf("want a usage error that names %s, got %v", c.says, err)
			}
			if printed != "" {
				t.Errorf("printed %q", printed)
			}
		})
	}
}
