package events

import (
	"regexp"
	"strconv"
)

// This file knows the form of a trace context (W3C Trace Context, 3.2), which travels with an event.

// traceparent is version, trace id, parent id and flags, in lower case. Later versions may add more behind another dash.
var traceparent = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$`)

const (
	noTrace  = "00000000000000000000000000000000"
	noParent = "0000000000000000"
)

// Traceparent returns s as it may be sent on, or "" if it is no trace context, which the specification says is to be
// dropped: ids that are all zero, version ff, capitals. Of a later version it keeps what version 00 knows, as the
// specification asks of those who know no later one.
func Traceparent(s string) string {
	parts := traceparent.FindStringSubmatch(s)
	switch {
	case parts == nil, parts[1] == "ff", parts[2] == noTrace, parts[3] == noParent, parts[1] == "00" && parts[5] != "":
		return ""
	case parts[1] == "00":
		return s
	}
	sampled := "00"
	if flags, err := strconv.ParseUint(parts[4], 16, 8); err == nil && flags&1 == 1 {
		sampled = "01"
	}
	return "00-" + parts[2] + "-" + parts[3] + "-" + sampled
}
