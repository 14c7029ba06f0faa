package main

// Every part must still work, from the command line to the file. The numbers are so tiny that they mean nothing.

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.com/outboxlab/pkg/service"
)

func TestEveryPartWorks(t *testing.T) {
	if os.Getenv("STACK") == "external" {
		t.Setenv("STACK", "") // those servers cannot be restarted with other settings
	}
	file := filepath.Join(t.TempDir(), "results.json")
	if err := os.WriteFile(file, []byte(`{"parts": {"of-another-day": {"seconds": 1}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	if err := run(t.Context(), []string{"--quick", "--out", file}, os.Getenv, &printed); err != nil {
		t.Fatalf("%v\n%s", err, printed.String())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var written resultFile
	if err := json.Unmarshal(text, &written); err != nil {
		t.Fatal(err)
	}
	if _, kept := written.Parts["of-another-day"]; !kept || len(written.Parts) != len(parts)+1 {
		t.Errorf("%d parts in the file, want %d and the one that was there", len(written.Parts), len(parts))
	}
	for _, p := range parts {
		of := written.Parts[p.name]
		if len(of.Measures) == 0 || of.Machine.PostgreSQL == "" || of.Machine.RabbitMQ == "" || of.Yardstick != p.yardstick {
			t.Errorf("%s: %+v", p.name, of)
		}
		if slices.ContainsFunc(of.Measures, func(m measure) bool { return m.Unit != "rows" && m.Unit != "times" && m.Value <= 0 }) {
			t.Errorf("%s: a measure of nothing: %+v", p.name, of.Measures)
		}
	}
	if !strings.Contains(printed.String(), "the numbers mean nothing") {
		t.Error("a quick run does not say that it means nothing")
	}
	if t.Failed() {
		t.Log(printed.String())
	}
}

func TestWrongUsage(t *testing.T) {
	for args, want := range map[string]string{
		"nothing-like-that":  `there is no part "nothing-like-that"`,
		"--fast":             "unknown flag --fast",
		"--sustain 0s relay": "--sustain=0s: must be 1s or more",
	} {
		err := run(t.Context(), strings.Fields(args), os.Getenv, &bytes.Buffer{})
		if usage := (service.UsageError{}); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

func TestHelpAndList(t *testing.T) {
	for flag, want := range map[string]string{"--help": "relay-drain", "--list": "pipeline-latency"} {
		var printed bytes.Buffer
		if err := run(t.Context(), []string{flag}, os.Getenv, &printed); err != nil || !strings.Contains(printed.String(), want) {
			t.Errorf("%s: %v\n%s", flag, err, printed.String())
		}
	}
}

func TestRatiosComeFirstAndTargetsAreJudged(t *testing.T) {
	raw := measure{Name: "raw", Value: 20_000, Unit: "events/s"}
	var printed bytes.Buffer
	printTable(&printed, []measure{
		raw,
		measure{Name: "relay", Value: 15_000, Unit: "events/s"}.to(raw).atLeast(0.7),
		measure{Name: "memory", Value: 61.25, Unit: "MB"}.atMost(50),
	})
	for i, want := range [][]string{{"raw", "20,000 events/s"}, {"75 %", "relay", "15,000 events/s", "✔ ≥ 70 %", "of raw"}, {"memory", "61.2 MB", "✘ ≤ 50 MB"}} {
		line := strings.Split(printed.String(), "\n")[i]
		at := 0
		for _, part := range want {
			found := strings.Index(line[at:], part)
			if found < 0 {
				t.Fatalf("%q is not in order in %q", part, line)
			}
			at += found
		}
	}
}
