package byhand

// Is what appeared what the page says? Word for word, except for what differs on every machine: event ids, ports,
// the width of psql's columns, and whatever the page leaves out with an ellipsis.

import (
	"maps"
	"regexp"
	"strings"
	"testing"
)

// variable is an event's short id, a port, or an ellipsis.
var variable = regexp.MustCompile(`\b[0-9a-f]{8}\b|127\.0\.0\.1:\d+|…`)

// ids maps the event ids of the page to those of this run. The same id on the page must be the same here, too.
type ids map[string]string

// match tells whether output is what expected says, and returns ids with those that are new.
func (known ids) match(expected, output string) (ids, bool) {
	expected, output = squeeze(expected), squeeze(output)
	var pattern strings.Builder
	var named []string
	end := 0
	for _, at := range variable.FindAllStringIndex(expected, -1) {
		pattern.WriteString(regexp.QuoteMeta(expected[end:at[0]]))
		switch word := expected[at[0]:at[1]]; {
		case word == "…":
			pattern.WriteString(`.*`)
		case strings.Contains(word, ":"):
			pattern.WriteString(`127\.0\.0\.1:\d+`)
		default:
			pattern.WriteString(`([0-9a-f]{8})`)
			named = append(named, word)
		}
		end = at[1]
	}
	pattern.WriteString(regexp.QuoteMeta(expected[end:]))
	found := regexp.MustCompile(`^` + pattern.String() + `$`).FindStringSubmatch(output)
	if found == nil {
		return known, false
	}
	learnt := maps.Clone(known)
	for i, id := range named {
		if have, ok := learnt[id]; ok && have != found[i+1] {
			return known, false
		}
		learnt[id] = found[i+1]
	}
	return learnt, true
}

var (
	spaces = regexp.MustCompile(`[ \t]+`)
	rules  = regexp.MustCompile(`-{2,}`)
)

// squeeze takes out how wide psql makes its columns.
func squeeze(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(spaces.ReplaceAllString(rules.ReplaceAllString(line, "-"), " ")); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

func TestWhatCountsAsTheSame(t *testing.T) {
	t.Parallel()
	const page = "[relay] published 2: aaaaaaaa, bbbbbbbb\n"
	known, ok := ids{}.match(page, "[relay] published 2: 01234567, 89abcdef\n")
	if !ok || known["aaaaaaaa"] != "01234567" || known["bbbbbbbb"] != "89abcdef" {
		t.Fatalf("learnt %v, %v", known, ok)
	}
	for _, c := range []struct {
		expected, output string
		same             bool
	}{
		{"[loyalty] aaaaaaaa duplicate, skipped", "[loyalty] 01234567 duplicate, skipped", true},
		{"[loyalty] aaaaaaaa duplicate, skipped", "[loyalty] 89abcdef duplicate, skipped", false},
		{"[loyalty] aaaaaaaa duplicate, skipped", "[loyalty] 01234567 order 1: +120 points", false},
		{"[loyalty] starting with …", "[loyalty] starting with A=1 B=2", true},
		{"listening on http://127.0.0.1:8081", "listening on http://127.0.0.1:40123", true},
		{" points\n--------\n     80\n(1 row)\n\n", " points \n---\n  80\n(1 row)\n\n", true},
		{" points\n--------\n     80\n(1 row)\n\n", " points \n---\n  81\n(1 row)\n\n", false},
		{"exit code 1", "exit code 1\nand more", false},
	} {
		if _, same := known.match(c.expected, c.output); same != c.same {
			t.Errorf("%q and %q: same = %v", c.expected, c.output, same)
		}
	}
}
