package main

import "testing"

func TestDeadLinksAreFound(t *testing.T) {
	wantFindings(t, checkLinks, repository(
		"README.md", "[a](docs/a.md#part) [site](https://example.com/x) [here](#below) ![](docs/pic.svg)\n```\n[x](y)\n```\n",
		"docs/a.md", "[up](../README.md) [folder](../docs)\n",
		"docs/pic.svg", "",
	))
	wantFindings(t, checkLinks, repository(
		"docs/a.md", "fine\n\n[gone](b.md) [up](../README)\n",
	), "docs/a.md:3: link to docs/b.md", "docs/a.md:3: link to README")
}
