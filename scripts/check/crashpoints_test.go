package main

import (
	"io/fs"
	"testing"

	"example.com/outboxlab/pkg/crash"
)

func TestUnplayedCrashPointIsFound(t *testing.T) {
	check := func(points ...crash.Point) func(fs.FS) ([]finding, error) {
		return func(files fs.FS) ([]finding, error) { return unplayed(files, points) }
	}
	scenarios := repository(
		"scripts/scenarios/02-a.txt", "# not loyalty.after-ack\ncrash relay CRASH_AFTER_PUBLISH=1\n",
		"scripts/scenarios/05-b.txt", "start orders CRASH_AT=orders.before-commit:2=hold\nstart relay --crash-at=relay.after-mark-x\n",
	)
	wantFindings(t, check("relay.after-publish", "orders.before-commit"), scenarios)
	wantFindings(t, check("loyalty.after-ack", "relay.after-mark", "loyalty.before-ack"), scenarios,
		"loyalty.after-ack", "relay.after-mark", "loyalty.before-ack")
}

func TestUntoldCrashPointIsFound(t *testing.T) {
	check := func(files fs.FS) ([]finding, error) {
		return untold(files, []crash.Point{"relay.after-publish", "relay.after-mark"}), nil
	}
	wantFindings(t, check, repository(guaranteesPage, "| `relay.after-publish` | … |\n| `relay.after-mark` |\n"))
	wantFindings(t, check, repository(guaranteesPage, "| `relay.after-publish` | … |\n"), "relay.after-mark")
	wantFindings(t, check, repository(), "cannot be read")
}
