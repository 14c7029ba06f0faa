package main

import "testing"

func TestSleepInATestIsFound(t *testing.T) {
	wantFindings(t, checkSleeps, repository(
		"a/a.go", "package a\nimport \"time\"\nfunc wait() { time.Sleep(1) }\n", // not a test
		"a/a_test.go", "package a\nimport \"time\"\nfunc wait(c chan int) { select { case <-c: case <-time.After(1): } }\n",
	))
	wantFindings(t, checkSleeps, repository(
		"a/a_test.go", "package a\nimport \"time\"\nfunc wait() {\n\ttime.Sleep(1)\n\t<-time.After(1)\n}\n",
	), "a/a_test.go:4: time.Sleep", "a/a_test.go:5: <-time.After")
}
