package servers

// What is written down about the main stack, and where? One file in .stack/, from which every later command (and every
// test that is run without servers of its own) knows what runs.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNothingUp is returned when no main stack is recorded.
var ErrNothingUp = errors.New("no PostgreSQL and RabbitMQ are up: run `go run ./scripts/stack up` first")

// record is .stack/record.json.
type record struct {
	Root    string         `json:"root"` // of the repository, when it was written
	Way     Way            `json:"way"`
	URLs    URLs           `json:"urls"`
	Native  *nativeRecord  `json:"native,omitempty"`
	Compose *composeRecord `json:"compose,omitempty"`
}

// nativeRecord is what is needed to find, restart and end the native servers.
type nativeRecord struct {
	Ports    ports   `json:"ports"`
	Postgres process `json:"postgres"`
	RabbitMQ process `json:"rabbitmq"`
}

// composeRecord is what is needed to find the containers: two clones on one engine have a project each.
type composeRecord struct {
	Project string `json:"project"`
	Ports   ports  `json:"ports"`
}

// Recorded returns the main stack's URLs and its way. dir is any directory of the repository.
func Recorded(dir string) (URLs, Way, error) {
	root, err := repository(dir)
	if err != nil {
		return URLs{}, "", err
	}
	r, err := readRecord(stackDir(root))
	if err != nil {
		return URLs{}, "", err
	}
	if r == nil {
		return URLs{}, "", ErrNothingUp
	}
	return r.URLs, r.Way, nil
}

// RecordedProject returns the compose project of a main stack in containers, or "".
func RecordedProject(dir string) (string, error) {
	root, err := repository(dir)
	if err != nil {
		return "", err
	}
	r, err := readRecord(stackDir(root))
	if err != nil || r == nil || r.Compose == nil {
		return "", err
	}
	return r.Compose.Project, nil
}

func stackDir(root string) string { return filepath.Join(root, ".stack") }

// repository finds the repository's root, the nearest directory upwards with a go.mod.
func repository(dir string) (string, error) {
	at, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		up := filepath.Dir(at)
		if up == at {
			return "", fmt.Errorf("%s is not inside the repository (no go.mod above it)", dir)
		}
		at = up
	}
}

// readRecord returns nil when nothing is recorded.
func readRecord(stack string) (*record, error) {
	text, err := os.ReadFile(filepath.Join(stack, "record.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s/record.json: %w", stack, err)
	}
	return &r, r.mustNotBeACopy(stack)
}

// mustNotBeACopy refuses a record that came here with a copy of another checkout: it names that one's servers, and `down` would
// end them and remove their data. In a checkout that has been moved the record stays good.
func (r record) mustNotBeACopy(stack string) error {
	if r.Root == "" {
		return nil
	}
	here, err := os.Stat(filepath.Join(stack, "record.json"))
	if err != nil {
		return err
	}
	there, err := os.Stat(filepath.Join(stackDir(r.Root), "record.json"))
	if errors.Is(err, fs.ErrNotExist) || err == nil && os.SameFile(here, there) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%s is a copy of %s, and the servers it names belong there: remove it (rm -r %s), then run this again", stack, stackDir(r.Root), stack)
}

// write replaces the record in one step: a reader sees the old one or the new one.
func (r record) write(stack string) error {
	r.Root = filepath.Dir(stack)
	if err := os.MkdirAll(stack, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	next := filepath.Join(stack, "record.json.new")
	if err := os.WriteFile(next, append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(stack, "record.json"))
}
