package service

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// This file shows people what /openapi.json says. The page is whole as it is sent: it needs no program and no internet.

//go:embed docs.html
var docsHTML string

var docsTemplate = template.Must(template.New("docs").Funcs(template.FuncMap{"json": indented}).Parse(docsHTML))

func indented(v any) (string, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	err = json.Indent(&b, plain, "", "  ")
	return b.String(), err
}

// docsPage serves the page. Operations are added to api after it has been made.
func docsPage(title string, api huma.API) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		var page bytes.Buffer
		if err := docsTemplate.Execute(&page, map[string]any{"Title": title, "API": api.OpenAPI()}); err != nil {
			writeProblem(w, http.StatusInternalServerError, err.Error())
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		_, _ = w.Write(page.Bytes())
	}
}
