// How does a story take the database away from the consumer alone? The verb database: the network between them. Orders are
// accepted meanwhile, and the story can still look at every table.
package main

import "context"

func compileDatabase(args []string) (action, error) {
	if len(args) != 1 {
		return nil, usage("database")
	}
	switch args[0] {
	case "cut":
		return func(_ context.Context, s *stage) error { s.dbPath.cut(); return nil }, nil
	case "mend":
		return func(ctx context.Context, s *stage) error { return s.dbPath.mend(ctx) }, nil
	}
	return nil, usage("database")
}
