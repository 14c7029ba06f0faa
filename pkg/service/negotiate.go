package service

import (
	"mime"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
)

// This file decides which requests are understood: which media types, and which methods.

// onlyJSON lets a request pass whose body is JSON, and sees to it that the answer is, too. The client may prefer something
// else, but there is nothing else to choose from (RFC 9110, 12.5.1).
func onlyJSON(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Accept")
		if sent := r.Header.Get("Content-Type"); sent != "" && r.ContentLength != 0 {
			if !isJSON(sent) {
				writeProblem(w, http.StatusUnsupportedMediaType, "the body must be application/json in UTF-8, not "+shorten(sent))
				return
			}
			r.Header.Set("Content-Type", "application/json")
		}
		next.ServeHTTP(w, r)
	})
}

// isJSON tells whether a Content-Type may stand before a JSON body. curl -d calls everything a form. JSON is always
// UTF-8 (RFC 8259, 8.1), so another charset is a body that would be misread.
func isJSON(contentType string) bool {
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err != nil && kind == "" {
		return false
	}
	switch strings.ToLower(parameters["charset"]) {
	case "", "utf-8", "utf8", "us-ascii":
	default:
		return false
	}
	return kind == "application/json" || kind == "application/x-www-form-urlencoded" ||
		strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
}

func notFound(w http.ResponseWriter, r *http.Request) {
	writeProblem(w, http.StatusNotFound, "there is no "+shorten(r.URL.Path)+" here; /docs lists what there is")
}

var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// methodNotAllowed answers with the methods that the path has.
func methodNotAllowed(router chi.Routes) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if r.URL.RawPath != "" {
			path = r.URL.RawPath
		}
		var allowed []string
		for _, m := range methods {
			asked := m
			if m == http.MethodHead {
				asked = http.MethodGet
			}
			if router.Match(chi.NewRouteContext(), asked, path) {
				allowed = append(allowed, m)
			}
		}
		if len(allowed) == 0 { // the router does not look for the path of a method that it does not know
			notFound(w, r)
			return
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		writeProblem(w, http.StatusMethodNotAllowed, shorten(r.Method)+" is not possible on "+shorten(r.URL.Path))
	}
}
