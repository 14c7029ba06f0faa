package printable_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"example.com/outboxlab/pkg/printable"
	"example.com/outboxlab/pkg/service"
)

// hostile is text by which data could play tricks on a terminal or on a table.
const hostile = "a\x1b[2J\r\n[loyalty] forged\tcolumn\u202etxt\u200b\u009b31m\u2066\ufeff\u3164\xff\x7f\x00\u2028end"

func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                            "",
		`relation "x" does not exist`: `relation "x" does not exist`,
		`C:\temp`:                     `C:\temp`,
		"Заказ №5, сумма 12 000 ₸":    "Заказ №5, сумма 12 000 ₸",
		"Тапсырыс қабылданды: әғқңөұүһі": "Тапсырыс қабылданды: әғқңөұүһі",
		"12\u00a0000\u202f₸": "12 000 ₸",
		"👍🏽 👩‍🚀 👨‍👩‍👧 ❤️‍🔥 🇰🇿": "👍🏽 👩‍🚀 👨‍👩‍👧 ❤️‍🔥 🇰🇿",
		"é e\u0301":                   "é e\u0301",
		"a\u200db":                    `a\u200db`,
		"\u200d👍":                     `\u200d👍`,
		"\x1b[31mred":                 `\x1b[31mred`,
		"two\nlines\tand\rmore":       `two\nlines\tand\rmore`,
		"\u202egnp.exe":               `\u202egnp.exe`,
		"zero\u200bwidth\ufeff\u00ad": `zero\u200bwidth\ufeff\u00ad`,
		"filler\u3164\u034f":          `filler\u3164\u034f`,
		"c1 \u009b31m \u0085":         `c1 \u009b31m \u0085`,
		"\xff\xc3(":                   `\xff\xc3(`,
		"\ufffd stays":                "\ufffd stays",
		"tag \U000e0041":              `tag \U000e0041`,
	} {
		if got := printable.Text(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}

func TestACellHasItsWidth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"тенге", 5, "тенге"}, {"тенге", 4, "тен…"}, {"\n\n", 4, `\n\n`}, {"\n\n\n", 4, `\n\…`},
		{strings.Repeat("ж", 1<<20), 3, "жж…"}, {strings.Repeat("\xff", 1<<20), 5, `\xff…`[:4] + "…"},
	} {
		if got := printable.Cell(c.in, c.limit); got != c.want {
			t.Errorf("%.20q in %d: %q, want %q", c.in, c.limit, got, c.want)
		}
	}
}

func TestLinesStayLines(t *testing.T) {
	t.Parallel()
	if got, want := printable.Lines("a\n\tb\x1b\n"), "a\n    b\\x1b\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A log line is one line, in both forms, whatever was put into it; as JSON it says exactly what that was.
func TestALogLineCannotBeForged(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		log := service.NewLogger("test", service.LogConfig{LogFormat: format, LogLevel: slog.LevelInfo}, &out)
		log.Info("Тапсырыс: "+hostile, "err", errors.New(hostile))
		line := out.String()
		if strings.Count(line, "\n") != 1 || printable.Text(strings.TrimSuffix(line, "\n")) != strings.TrimSuffix(line, "\n") {
			t.Errorf("%s: %q", format, line)
		}
		if !strings.Contains(line, "Тапсырыс: a") {
			t.Errorf("%s: plain text is not readable: %q", format, line)
		}
		if format == "text" {
			continue
		}
		var fields struct{ Msg string }
		if err := json.Unmarshal(out.Bytes(), &fields); err != nil || fields.Msg != "Тапсырыс: "+strings.ToValidUTF8(hostile, "\ufffd") {
			t.Errorf("%q, %v", fields.Msg, err)
		}
	}
}
