package schema

// Where does a schema of a database stand, and can this program migrate it?

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/pressly/goose/v3"
)

// state is what a database says about one schema, beside what this program knows.
type state struct {
	recorded bool                // goose's version table is there
	tables   bool                // a table that the migrations make is there
	applied  map[int64]time.Time // by version
	known    map[int64]string    // this program's migrations, file names by version
}

// createTable finds the tables that a migration makes, e.g. orders.outbox.
var createTable = regexp.MustCompile(`(?m)^CREATE TABLE (\w+\.\w+)`)

// Is the version table there, and any of those that the migrations make? The catalog may be read by everybody.
const askTables = `
SELECT to_regclass($1) IS NOT NULL,
       EXISTS (SELECT FROM unnest($2::text[]) AS made WHERE to_regclass(made) IS NOT NULL)`

// readState changes nothing: goose's own status would create its table.
func readState(ctx context.Context, db *sql.DB, name string) (state, error) {
	s := state{applied: map[int64]time.Time{}, known: map[int64]string{}}
	var makes []string
	err := eachMigration(name, func(file, up string) (err error) {
		var version int64
		if version, err = goose.NumericComponent(file); err == nil {
			s.known[version] = file
		}
		for _, found := range createTable.FindAllStringSubmatch(up, -1) {
			makes = append(makes, found[1])
		}
		return err
	})
	if err != nil {
		return s, err
	}
	if err := db.QueryRowContext(ctx, askTables, versionTable(name), makes).Scan(&s.recorded, &s.tables); err != nil || !s.recorded {
		return s, err
	}
	// A version can have several rows; the newest counts.
	rows, err := db.QueryContext(ctx, `SELECT DISTINCT ON (version_id) version_id, is_applied, tstamp FROM `+versionTable(name)+` WHERE version_id > 0 ORDER BY version_id, id DESC`)
	if err != nil {
		return s, err
	}
	defer rows.Close()
	for rows.Next() {
		var version int64
		var applied bool
		var at time.Time
		if err := rows.Scan(&version, &applied, &at); err != nil {
			return s, err
		}
		if applied {
			s.applied[version] = at
		}
	}
	return s, rows.Err()
}

// check refuses to migrate what this program does not understand, before anything is changed.
func (s state) check(name string) error {
	if s.tables && len(s.applied) == 0 {
		return fmt.Errorf("its tables are there, and %s does not tell what made them: restore that table, or drop the schema", versionTable(name))
	}
	newest := slices.Max(slices.Collect(maps.Keys(s.known)))
	for _, version := range slices.Sorted(maps.Keys(s.applied)) {
		if s.known[version] != "" {
			continue
		}
		if version > newest {
			return fmt.Errorf("the database is at version %d, and this program knows versions up to %d: use the newer program", slices.Max(slices.Collect(maps.Keys(s.applied))), newest)
		}
		return fmt.Errorf("the database has version %d, which this program does not know: use the program that it comes from", version)
	}
	if missing := s.firstGap(); missing != 0 {
		return fmt.Errorf("%s is not applied, and a later one is: %s does not tell what is in the schema", s.known[missing], versionTable(name))
	}
	return nil
}

// firstGap is the lowest known version that is not applied although a later one is, or 0.
func (s state) firstGap() int64 {
	if len(s.applied) == 0 {
		return 0
	}
	last := slices.Max(slices.Collect(maps.Keys(s.applied)))
	for _, version := range slices.Sorted(maps.Keys(s.known)) {
		if _, applied := s.applied[version]; !applied && version < last {
			return version
		}
	}
	return 0
}

// lines are the status, one per migration.
func (s state) lines() (lines []string) {
	all := maps.Clone(s.known)
	for version := range s.applied {
		if all[version] == "" {
			all[version] = fmt.Sprintf("version %d, which this program does not know", version)
		}
	}
	for _, version := range slices.Sorted(maps.Keys(all)) {
		when := "pending"
		if at, applied := s.applied[version]; applied {
			when = "applied " + at.Format("2006-01-02 15:04:05")
		}
		lines = append(lines, all[version]+": "+when)
	}
	if s.tables && len(s.applied) == 0 {
		lines = append(lines, "its tables are there, and nothing tells which migrations made them")
	}
	return lines
}
