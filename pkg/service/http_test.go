package service_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"example.com/outboxlab/pkg/printable"
	"example.com/outboxlab/pkg/service"
)

// An answer repeats what was asked for only as far as a terminal can show it.
func TestAnAnswerQuotesThePath(t *testing.T) {
	t.Parallel()
	router, _ := service.NewRouter("test", nil, service.NewMetrics())
	for method, path := range map[string]string{
		http.MethodGet:    "/%1b[2J%0a%c2%9b%e2%80%ae%ff" + strings.Repeat("x", 10000),
		http.MethodDelete: "/healthz",
	} {
		answer := httptest.NewRecorder()
		router.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		body := strings.TrimSuffix(answer.Body.String(), "\n")
		var problem struct{ Detail string }
		if err := json.Unmarshal([]byte(body), &problem); err != nil || answer.Code < 404 || len(body) > 1000 ||
			printable.Text(body) != body || printable.Text(problem.Detail) != problem.Detail {
			t.Errorf("%s: %d %q, %v", method, answer.Code, body, err)
		}
	}
}
