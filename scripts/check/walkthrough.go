package main

// Does docs/walkthrough.md lead through the files in the order an order travels them? Each stop of
// the walk must be there, be linked, and come after the one before it.

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

const walkthroughPage = "docs/walkthrough.md"

// walk is the reader's way from the HTTP request to the ledger row, as the design has it.
var walk = []string{
	"scripts/scenarios/01-happy-path.txt",
	"services/orders/http.go",
	"services/orders/place.go",
	"pkg/outbox/outbox.go",
	"services/relay/relay.go",
	"services/relay/rabbitmq.go",
	"pkg/events/topology/topology.go",
	"services/loyalty/rabbitmq.go",
	"services/loyalty/award.go",
	"migrations/schema/loyalty/00001_ledger_and_inbox.sql",
}

func checkWalkthrough(files fs.FS) (found []finding, err error) {
	content, err := fs.ReadFile(files, walkthroughPage)
	if errors.Is(err, fs.ErrNotExist) {
		return []finding{{file: walkthroughPage, what: "is missing"}}, nil
	} else if err != nil {
		return nil, err
	}
	seen := -1 // the furthest stop reached so far
	reached := map[string]bool{}
	for _, l := range relativeLinks(walkthroughPage, content) {
		stop := slices.Index(walk, l.target)
		if stop < 0 || reached[l.target] {
			continue // a side road, or a look back
		}
		reached[l.target] = true
		if stop < seen {
			found = append(found, finding{walkthroughPage, l.line, fmt.Sprintf("%s comes after %s; the order travels the other way", l.target, walk[seen])})
		}
		seen = max(seen, stop)
	}
	for _, stop := range walk {
		if !reached[stop] {
			found = append(found, finding{file: walkthroughPage, what: "does not link to " + stop})
		}
		if _, err := fs.Stat(files, stop); err != nil {
			found = append(found, finding{file: stop, what: "is a stop of the walk and does not exist"})
		}
	}
	return found, nil
}
