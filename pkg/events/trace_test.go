package events_test

import (
	"testing"

	"example.com/outboxlab/pkg/events"
)

func TestTraceparent(t *testing.T) {
	t.Parallel()
	const ids = "-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
	for text, want := range map[string]string{
		"00" + ids + "01":         "00" + ids + "01",
		"00" + ids + "00":         "00" + ids + "00",
		"00" + ids + "03":         "00" + ids + "03",
		"cc" + ids + "01":         "00" + ids + "01",
		"01" + ids + "0b-what-is": "00" + ids + "01",
		"fe" + ids + "fe-":        "00" + ids + "00",
		"":                        "",
		"00-a-b-01":               "",
		"ff" + ids + "01":         "",
		"00" + ids + "01-more":    "",
		"01" + ids + "01more":     "",
		"01" + ids + "01-a\nb":    "",
		" 00" + ids + "01":        "",
		"00" + ids + "01 ":        "",
		"00" + ids + "1":          "",
		"00" + ids + "0G":         "",
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01": "",
		"00-0af7651916cd43dd8448eb211c80319c-B7AD6B7169203331-01": "",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": "",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": "",
		"01-00000000000000000000000000000000-b7ad6b7169203331-01": "",
	} {
		if got := events.Traceparent(text); got != want {
			t.Errorf("Traceparent(%q) = %q, want %q", text, got, want)
		}
	}
}
