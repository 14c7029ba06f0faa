package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// serviceConfig has a variable of every kind: required, with a default, empty, and from an embedded struct.
const serviceConfig = `package main
import "example.com/outboxlab/pkg/service"
// Config is read from the environment.
type Config struct {
	// Where orders are kept;
	// as role orders_app.
	DatabaseURL string ` + "`env:\"DATABASE_URL,required\"`" + `
	// Rows a claim takes | at most.
	Batch int ` + "`env:\"RELAY_BATCH\" envDefault:\"500\"`" + `
	// Flag.
	CrashAt string ` + "`env:\"CRASH_AT\"`" + `
	Log service.LogConfig
	internal int
}
`

const logConfig = `package service
type LogConfig struct {
	// Look of a line.
	Format string ` + "`env:\"LOG_FORMAT\" envDefault:\"text\"`" + `
}
`

// configuredRepository has page as docs/configuration.md.
func configuredRepository(page string) []string {
	tree := []string{"pkg/service/log.go", logConfig, configurationPage, page}
	for _, folder := range configured {
		tree = append(tree, folder+"/config.go", serviceConfig)
	}
	return tree
}

func TestConfigurationPageOutOfDateIsFound(t *testing.T) {
	page := filepath.Join(t.TempDir(), "docs", "configuration.md")
	if err := writeConfiguration(repository(configuredRepository("")...), page); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		"## relay\n",
		"| `DATABASE_URL` | required | Where orders are kept; as role orders_app. |\n",
		"| `RELAY_BATCH` | `500` | Rows a claim takes \\| at most. |\n",
		"| `CRASH_AT` | (empty) | Flag. |\n",
		"| `LOG_FORMAT` | `text` | Look of a line. |\n",
	} {
		if !strings.Contains(string(written), row) {
			t.Errorf("page lacks %q:\n%s", row, written)
		}
	}
	wantFindings(t, checkConfiguration, repository(configuredRepository(string(written))...))

	stale := strings.Replace(string(written), "`500`", "`100`", 1)
	wantFindings(t, checkConfiguration, repository(configuredRepository(stale)...), "differs from the structs")
}

func TestVariableWithoutCommentIsRefused(t *testing.T) {
	tree := configuredRepository("")
	for i := range tree {
		tree[i] = strings.Replace(tree[i], "// Flag.", "", 1)
	}
	if _, err := checkConfiguration(repository(tree...)); err == nil || !strings.Contains(err.Error(), "CRASH_AT has no comment") {
		t.Errorf("error %v", err)
	}
}
