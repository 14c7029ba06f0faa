package main

import (
	"strings"
	"testing"
)

const events = `{"Action":"start","Package":"m/a"}
{"Action":"start","Package":"m/b"}
{"Action":"run","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"    a.go:1: chatter\n"}
{"Action":"output","Package":"m/b","Test":"TestBad","Output":"=== RUN   TestBad\n"}
{"Action":"output","Package":"m/b","Test":"TestBad/sub","Output":"    b.go:1: broken\n"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"--- PASS: TestGood (0.00s)\n"}
{"Action":"pass","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Output":"PASS\n"}
{"Action":"output","Package":"m/a","Output":"ok  \tm/a\t0.1s\n"}
{"Action":"pass","Package":"m/a"}
{"Action":"output","Package":"m/b","Test":"TestBad","Output":"--- FAIL: TestBad (0.00s)\n"}
{"Action":"fail","Package":"m/b","Test":"TestBad/sub"}
{"Action":"fail","Package":"m/b","Test":"TestBad"}
{"Action":"output","Package":"m/b","Output":"FAIL\n"}
{"Action":"output","Package":"m/b","Output":"FAIL\tm/b\t0.1s\n"}
{"Action":"fail","Package":"m/b"}
{"ImportPath":"m/c","Action":"build-output","Output":"c.go:1: undefined\n"}
{"Action":"start","Package":"m/d"}
{"Action":"output","Package":"m/d","Test":"TestHangs","Output":"panic: test timed out\n"}
FAIL
`

func TestReport(t *testing.T) {
	const beginsAndEnds = "begin\tm/a\nbegin\tm/b\n"
	for name, c := range map[string]struct {
		report report
		want   string
	}{
		"failures only": {report{began: "begin"}, beginsAndEnds + "ok  \tm/a\t0.1s\n" +
			"--- FAIL: TestBad (0.00s)\n    b.go:1: broken\nFAIL\nFAIL\tm/b\t0.1s\n" +
			"c.go:1: undefined\nbegin\tm/d\nFAIL\npanic: test timed out\n"},
		"everything": {report{began: "begin", verbose: true}, beginsAndEnds +
			"=== RUN   TestGood\n    a.go:1: chatter\n--- PASS: TestGood (0.00s)\nPASS\nok  \tm/a\t0.1s\n" +
			"=== RUN   TestBad\n    b.go:1: broken\n--- FAIL: TestBad (0.00s)\nFAIL\nFAIL\tm/b\t0.1s\n" +
			"c.go:1: undefined\nbegin\tm/d\npanic: test timed out\nFAIL\n"},
		"compiling": {report{ended: "compiled"}, "compiled\tm/a\n" +
			"--- FAIL: TestBad (0.00s)\n    b.go:1: broken\nFAIL\nFAIL\tm/b\t0.1s\n" +
			"c.go:1: undefined\nFAIL\npanic: test timed out\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			c.report.out = &out
			if err := c.report.read(strings.NewReader(events)); err != nil || out.String() != c.want {
				t.Errorf("%v, printed\n%s\nwant\n%s", err, out.String(), c.want)
			}
		})
	}
}
