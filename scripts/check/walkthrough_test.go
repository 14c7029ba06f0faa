package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestWalkOutOfOrderIsFound(t *testing.T) {
	// walking is a repository whose walkthrough links to these stops, in this order.
	walking := func(stops ...string) []string {
		var page strings.Builder
		page.WriteString("[the design's picture](picture.md)\n")
		for _, stop := range stops {
			fmt.Fprintf(&page, "[%s](../%s)\n", stop, stop)
		}
		tree := []string{walkthroughPage, page.String()}
		for _, stop := range walk {
			tree = append(tree, stop, "")
		}
		return tree
	}
	wantFindings(t, checkWalkthrough, repository(walking(walk...)...))
	wantFindings(t, checkWalkthrough, repository(walking(append(slices.Clone(walk), walk[0])...)...)) // a look back

	swapped := slices.Clone(walk)
	swapped[1], swapped[2] = swapped[2], swapped[1]
	wantFindings(t, checkWalkthrough, repository(walking(swapped...)...), walk[1]+" comes after "+walk[2])

	wantFindings(t, checkWalkthrough, repository(walking(walk[1:]...)...), "does not link to "+walk[0])

	missing := walking(walk...)
	wantFindings(t, checkWalkthrough, repository(missing[:len(missing)-2]...), walk[len(walk)-1]+": is a stop of the walk and does not exist")

	wantFindings(t, checkWalkthrough, repository(), walkthroughPage+": is missing")
}
