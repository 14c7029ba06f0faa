package main

// Does every relative link in a Markdown page lead to a file that exists?

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
)

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	leadsAway    = regexp.MustCompile(`^([a-z][a-z0-9+.-]*:|#|/)`) // another site, this page
)

// link is one relative link; target is a path from the repository's root, without its #fragment.
type link struct {
	line   int
	target string
}

// relativeLinks lists the links of a page in order, leaving out code, where brackets mean nothing.
func relativeLinks(page string, content []byte) (links []link) {
	fenced := false
	for i, line := range strings.Split(string(content), "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if fenced {
			continue
		}
		for _, match := range markdownLink.FindAllStringSubmatch(line, -1) {
			target, _, _ := strings.Cut(match[1], "#")
			if leadsAway.MatchString(match[1]) {
				continue
			}
			links = append(links, link{i + 1, path.Join(path.Dir(page), target)})
		}
	}
	return links
}

func checkLinks(files fs.FS) (found []finding, err error) {
	err = each(files, []string{".md"}, func(page string, content []byte) error {
		for _, l := range relativeLinks(page, content) {
			if _, err := fs.Stat(files, l.target); err != nil {
				found = append(found, finding{page, l.line, "link to " + l.target + ", which does not exist"})
			}
		}
		return nil
	})
	return found, err
}
