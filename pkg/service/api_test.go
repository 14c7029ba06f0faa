package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"example.com/outboxlab/pkg/service"
)

type echoRequest struct {
	Body struct {
		Number int32 `json:"number" minimum:"1"`
	}
}

type echoResponse struct{ Body struct{ Number int32 } }

// echoAPI is an API of a POST and a GET operation, like those of the services.
func echoAPI() http.Handler {
	ready := func(context.Context) error { return nil }
	router, api := service.NewRouter("echo", ready, service.NewMetrics())
	huma.Register(api, huma.Operation{OperationID: "echo", Method: http.MethodPost, Path: "/echo", Summary: "Say a number"},
		func(_ context.Context, r *echoRequest) (*echoResponse, error) {
			response := &echoResponse{}
			response.Body.Number = r.Body.Number
			return response, nil
		})
	huma.Register(api, huma.Operation{OperationID: "get", Method: http.MethodGet, Path: "/echo/{id}", Summary: "Say it again"},
		func(context.Context, *struct {
			ID int64 `path:"id"`
		}) (*echoResponse, error) {
			return &echoResponse{}, nil
		})
	return router
}

func send(t *testing.T, router http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	answer := httptest.NewRecorder()
	router.ServeHTTP(answer, request)
	return answer
}

func TestABodyIsJSONWhateverItIsCalled(t *testing.T) {
	t.Parallel()
	router := echoAPI()
	for contentType, status := range map[string]int{
		"": 200, "application/json": 200, "APPLICATION/JSON": 200, "application/json; charset=utf-8": 200, "application/json ; charset=UTF-8": 200,
		`application/json;charset="utf-8"`: 200, "application/json;": 200, "Application/X-WWW-Form-Urlencoded": 200, "application/vnd.api+json": 200,
		"application/json; v=1": 200,
		"text/plain":            415, "application/xml": 415, "application/json; charset=utf-16": 415, "application/json; charset=iso-8859-1": 415, "/": 415, "json": 415, ";": 415,
		"multipart/form-data; boundary=x": 415, "text/" + strings.Repeat("x", 10000): 415,
	} {
		got := send(t, router, http.MethodPost, "/echo", `{"number":1}`, "Content-Type", contentType)
		if got.Code != status || got.Body.Len() > 1000 {
			t.Errorf("%.100q: %d, want %d: %.300s", contentType, got.Code, status, got.Body)
		}
	}
}

func TestAnAnswerIsCalledWhatItIs(t *testing.T) {
	t.Parallel()
	router := echoAPI()
	for _, accept := range []string{
		"", "*/*", "application/json", "application/x-www-form-urlencoded", "json", "application/xml", "text/html;q=0.9, */*;q=0.1", "application/json;q=0",
		"a;", "a;,", ";", ",", "a;q", "application/x-www-form-urlencoded;q=1, application/json;q=0.1", "application/cbor",
	} {
		for body, want := range map[string]string{`{"number":1}`: "application/json", `{"number":0}`: "application/problem+json"} {
			if got := send(t, router, http.MethodPost, "/echo", body, "Accept", accept); got.Header().Get("Content-Type") != want || !json.Valid(got.Body.Bytes()) {
				t.Errorf("Accept %q: %d %s %s", accept, got.Code, got.Header().Get("Content-Type"), got.Body)
			}
		}
	}
}

func TestHeadIsGetWithoutABody(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(echoAPI())
	defer server.Close()
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/echo/1", "/echo/x", "/openapi.json", "/openapi.yaml", "/docs", "/nowhere"} {
		var answers [2]string
		for i, method := range []string{http.MethodGet, http.MethodHead} {
			request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			if err := response.Body.Close(); err != nil {
				t.Error(err)
			}
			answers[i] = fmt.Sprint(response.StatusCode, response.Header.Get("Content-Type"))
		}
		if answers[0] != answers[1] {
			t.Errorf("%s: GET %s, HEAD %s", path, answers[0], answers[1])
		}
	}
}

func TestARefusedMethodNamesTheOthers(t *testing.T) {
	t.Parallel()
	router := echoAPI()
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{http.MethodGet, "/echo", 405, "POST"},
		{http.MethodHead, "/echo", 405, "POST"},
		{http.MethodDelete, "/echo/1", 405, "GET, HEAD"},
		{http.MethodPost, "/healthz", 405, "GET, HEAD"},
		{http.MethodPost, "/readyz", 405, "GET, HEAD"},
		{http.MethodPut, "/metrics", 405, "GET, HEAD"},
		{http.MethodPatch, "/docs", 405, "GET, HEAD"},
		{http.MethodPost, "/openapi.json", 405, "GET, HEAD"},
		{http.MethodOptions, "/echo", 405, "POST"},
		{"PROPFIND", "/echo", 405, "POST"},
		{"PROPFIND", "/nowhere", 404, ""},
	} {
		got := send(t, router, c.method, c.path, "")
		if got.Code != c.status || got.Header().Get("Allow") != c.allow {
			t.Errorf("%s %s: %d, Allow %q", c.method, c.path, got.Code, got.Header().Get("Allow"))
		}
	}
}

// What is wrong is told in a few words, however much of it there is.
func TestAnErrorRepeatsLittleOfTheBody(t *testing.T) {
	t.Parallel()
	router := echoAPI()
	long := strings.Repeat("x", 45_000)
	var members []string
	for i := range 3000 {
		members = append(members, fmt.Sprintf(`"member%d":1`, i))
	}
	for name, body := range map[string]string{
		"a long text":          `{"number":"` + long + `"}`,
		"a long unknown name":  `{"number":1,"` + long + `":1}`,
		"a long unknown value": `{"number":1,"other":"` + long + `"}`,
		"many unknown names":   `{"number":1,` + strings.Join(members, ",") + `}`,
		"an object":            `{"number":{` + strings.Join(members, ",") + `}}`,
		"a list":               `[` + strings.Repeat("1,", 20_000) + `1]`,
		"a text":               `"` + long + `"`,
		"not JSON":             long,
		"control characters":   `{"number":"` + strings.Repeat(`\u001b[2J`, 3000) + `"}`,
		"deep":                 strings.Repeat(`{"number":`, 5000) + "1" + strings.Repeat("}", 5000),
		"deeper":               strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
		"many digits":          `{"number":` + strings.Repeat("9", 45_000) + `}`,
		"a long fraction":      `{"number":1.` + strings.Repeat("9", 45_000) + `}`,
	} {
		got := send(t, router, http.MethodPost, "/echo", body)
		if got.Code < 400 || got.Code > 422 || got.Body.Len() > 5000 || !json.Valid(got.Body.Bytes()) {
			t.Errorf("%s: %d, %d bytes: %.500s", name, got.Code, got.Body.Len(), got.Body)
		}
	}
}

func TestANumberThatIsTooLargeNamesItsField(t *testing.T) {
	t.Parallel()
	router := echoAPI()
	for _, number := range []string{"1e999", "-1e999", "1e400", strings.Repeat("9", 400), "1e20", "1e3", "1.5", "2147483648", "-1e3"} {
		if got := send(t, router, http.MethodPost, "/echo", `{"number":`+number+`}`); number != "1e3" && (got.Code < 400 || got.Code > 422 || !strings.Contains(got.Body.String(), "number:") && !strings.Contains(got.Body.String(), "body.number")) {
			t.Errorf("%.20s: %d %s", number, got.Code, got.Body)
		}
	}
	if got := send(t, router, http.MethodPost, "/echo", `{"number":1,"a":{"b":[1,1e999]}}`); !strings.Contains(got.Body.String(), "a.b[1]") {
		t.Errorf("%s", got.Body)
	}
}

// The page of the API needs nothing from elsewhere.
func TestTheDocsNeedNoInternet(t *testing.T) {
	t.Parallel()
	page := send(t, echoAPI(), http.MethodGet, "/docs", "").Body.String()
	for _, part := range []string{"POST /echo", "Say a number", "GET /echo/{id}", "/openapi.json", "/readyz", "minimum"} {
		if !strings.Contains(page, part) {
			t.Errorf("it does not say %s", part)
		}
	}
	for _, part := range []string{"<script", "<link", "src=", `href="http`, "url(", "@import"} {
		if strings.Contains(page, part) {
			t.Errorf("it needs %s:\n%s", part, page)
		}
	}
}
