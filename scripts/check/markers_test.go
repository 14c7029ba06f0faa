package main

import "testing"

func TestMarkersAreFound(t *testing.T) {
	wantFindings(t, checkMarkers, repository("README.md", "# All done\n", "a.go", "package a // mastodon\n", ".git/x", "TO"+"DO"))
	wantFindings(t, checkMarkers, repository(
		".ci/run", "true # FIX"+"ME: later\n",
		"a.go", "package a\n\n// TO"+"DO: write\n",
	), ".ci/run:1:", "a.go:3:")
}
