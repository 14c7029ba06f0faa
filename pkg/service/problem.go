package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"example.com/outboxlab/pkg/printable"
)

// This file says what is wrong with a request, in a few words: an answer repeats only a short part of what was sent.

const (
	// shown is how much an answer repeats of one value, name or path, in characters.
	shown = 100
	// maxMessage bounds one sentence, in characters.
	maxMessage = 300
	// maxDetails is how many mistakes are listed one by one.
	maxDetails = 10
)

func shorten(s string) string { return printable.Cell(s, shown) }

func init() {
	// A member called customerid is not customerId but a misspelt one, and refused as such.
	huma.ValidateStrictCasing = true
	// Bounds as people write them, not 2.147483647e+09.
	validation.MsgExpectedMinimumNumber = "expected number >= %.0f"
	validation.MsgExpectedMaximumNumber = "expected number <= %.0f"
	huma.NewError = newProblem
}

// newProblem is what huma makes of each error: problem details (RFC 9457).
func newProblem(status int, detail string, errs ...error) huma.StatusError {
	problem := &huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: printable.Cell(detail, maxMessage)}
	for i, err := range errs {
		if i == maxDetails {
			problem.Errors = append(problem.Errors, &huma.ErrorDetail{Message: fmt.Sprintf("and %d more", len(errs)-i)})
			break
		}
		if err == nil {
			continue
		}
		d := huma.ErrorDetail{Message: err.Error()}
		if detailed, ok := err.(huma.ErrorDetailer); ok {
			d = *detailed.ErrorDetail()
		}
		d.Message, d.Location, d.Value = printable.Cell(d.Message, maxMessage), shorten(d.Location), shortValue(d.Value)
		problem.Errors = append(problem.Errors, &d)
	}
	return problem
}

// shortValue is the value that was refused, if it is a short one; of a text, the beginning.
func shortValue(value any) any {
	switch v := value.(type) {
	case string:
		return shorten(v)
	case bool, float64, int64:
		return v
	}
	return nil
}

// writeProblem answers as huma does, for what never reaches it.
func writeProblem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(newProblem(status, detail))
}

// readJSON reads a body. Its errors are for whoever sent it: a number that the API's description takes for
// an integer may be too large for one, or be written as 1e3.
func readJSON(body []byte, into any) error {
	err := json.Unmarshal(body, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && strings.HasPrefix(wrong.Value, "number") {
		field := wrong.Field
		if field == "" { // it was read without a type, as a float64
			field = hugeNumber(body)
		}
		return fmt.Errorf("%s: expected a whole number of at most 64 bits, without point and exponent, not %s",
			shorten(field), shorten(strings.TrimPrefix(wrong.Value, "number ")))
	}
	return err
}

// hugeNumber is the place of a number that no float64 can hold, e.g. customerId for {"customerId": 1e999}.
func hugeNumber(body []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	_ = decoder.Decode(&value) // it is known to be well formed
	place, _ := findHuge(value, "")
	return strings.TrimPrefix(place, ".")
}

func findHuge(value any, place string) (string, bool) {
	switch v := value.(type) {
	case json.Number:
		_, err := strconv.ParseFloat(v.String(), 64)
		return place, err != nil
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if found, is := findHuge(v[name], place+"."+name); is {
				return found, true
			}
		}
	case []any:
		for i, element := range v {
			if found, is := findHuge(element, fmt.Sprintf("%s[%d]", place, i)); is {
				return found, true
			}
		}
	}
	return "", false
}
