// Package printable makes text that came from data (a row, a message, a server's answer) fit to be printed: a terminal
// must show it and not obey it, and one value must not look like two lines or two columns.
package printable

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns s with every character that cannot be seen written as Go writes it in a string: \n, \t, \x1b,
// \u202e, and a byte that is not UTF-8 as \xff. Without that, a value can move the cursor, set colours, begin
// a line that looks like another value, or reverse the order in which the rest is read. Letters of all scripts and emoji
// stay as they are; other kinds of space become a plain one.
func Text(s string) string {
	if clean := !strings.ContainsFunc(s, func(r rune) bool { return !visible(r) || r == utf8.RuneError }); clean {
		return s
	}
	var b strings.Builder
	var before rune
	for s != "" {
		r, width := utf8.DecodeRuneInString(s)
		first := s[0]
		s = s[width:]
		switch {
		case r == utf8.RuneError && width == 1:
			fmt.Fprintf(&b, `\x%02x`, first)
		case visible(r), r == joiner && joinsEmoji(before, s):
			b.WriteRune(r)
		case unicode.Is(unicode.Zs, r):
			b.WriteByte(' ')
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		before = r
	}
	return b.String()
}

// visible tells whether a terminal shows something for r. A few letters and marks are empty by definition.
func visible(r rune) bool {
	return unicode.IsPrint(r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

// joiner makes one emoji of two, as in a family. Anywhere else it is a character of no width.
const joiner = '\u200d'

func joinsEmoji(before rune, rest string) bool {
	const emojiStyle = '\ufe0f'
	after, _ := utf8.DecodeRuneInString(rest)
	return unicode.Is(unicode.So, after) && (unicode.In(before, unicode.So, unicode.Sk) || before == emojiStyle)
}

// Cell is Text for a column of a table: at most limit characters, the last one an ellipsis if there are more.
func Cell(s string, limit int) string {
	if most := limit * utf8.UTFMax; len(s) > most { // enough to be shown; a value may be megabytes long
		for back := 0; back < utf8.UTFMax-1 && !utf8.RuneStart(s[most]); back++ {
			most--
		}
		s = s[:most] + "…"
	}
	s = Text(s)
	if utf8.RuneCountInString(s) > limit {
		s = string([]rune(s)[:limit-1]) + "…"
	}
	return s
}

// Lines is Text for a text of several lines, which stay lines; tabs become spaces.
func Lines(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\t", "    "), "\n")
	for i, line := range lines {
		lines[i] = Text(line)
	}
	return strings.Join(lines, "\n")
}

// Sentence is Text for a log line or an error: white space is folded first, since libraries report some errors on
// several lines.
func Sentence(s string) string { return Text(strings.Join(strings.Fields(s), " ")) }

// JSON writes JSON to w with invisible characters escaped that JSON itself lets through: U+009B begins a
// control sequence on some terminals, U+202E reverses the line. What a program reads from it is the same. Each call
// of Write must carry whole characters, as those of encoding/json and log/slog do.
func JSON(w io.Writer) io.Writer { return jsonWriter{w} }

type jsonWriter struct{ to io.Writer }

func (j jsonWriter) Write(p []byte) (int, error) {
	odd := func(r rune) bool { return r >= 0x7f && !visible(r) }
	text := string(p)
	if strings.ContainsFunc(text, odd) {
		var b strings.Builder
		for _, r := range text {
			if !odd(r) {
				b.WriteRune(r)
				continue
			}
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
		text = b.String()
	}
	if _, err := io.WriteString(j.to, text); err != nil {
		return 0, err
	}
	return len(p), nil
}
