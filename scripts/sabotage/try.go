package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// This file answers: how is one patch tried? In a worktree of its own, so that the files being worked
// on are never touched.

// worktree checks the last commit out into a directory of its own.
func worktree(ctx context.Context) (dir string, remove func(), err error) {
	if dir, err = os.MkdirTemp("", "outboxlab-sabotage-"); err != nil {
		return "", nil, err
	}
	if _, err := git(ctx, ".", "worktree", "add", "--quiet", "--detach", dir, "HEAD"); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, func() {
		_, _ = git(context.WithoutCancel(ctx), ".", "worktree", "remove", "--force", dir)
		_ = os.RemoveAll(dir)
	}, nil
}

// waitLimit is how long a test waits for what its missing guard may have made impossible.
const waitLimit = "1m"

// try applies p in dir and runs its test; an error says why that did not turn red as it should.
func try(ctx context.Context, dir string, p patch) error {
	if _, err := git(ctx, dir, "apply", "--whitespace=nowarn", p.file); err != nil {
		return fmt.Errorf("the patch no longer applies: %w", err)
	}
	defer func() { _, _ = git(context.WithoutCancel(ctx), dir, "checkout", "--quiet", ".") }()
	test := exec.CommandContext(ctx, "go", append([]string{"test", "-count=1"}, p.test...)...)
	test.Dir = dir
	test.Env = append(os.Environ(), "TEST_WAIT_LIMIT="+waitLimit)
	output, err := test.CombinedOutput()
	switch {
	case err == nil && bytes.Contains(output, []byte("no tests to run")):
		return errors.New("the test does not exist")
	case err == nil:
		return errors.New("stayed green")
	case !bytes.Contains(output, []byte("--- FAIL")):
		return fmt.Errorf("no test has failed: %s", lastLines(output))
	}
	return nil
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", args...)
	command.Dir = dir
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(output))
	}
	return string(output), nil
}

func lastLines(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " / ")
}

// recentCommits is how far back --touched looks; others are how many more patches it takes, another
// few at every commit.
const (
	recentCommits = 10
	others        = 3
)

// touched picks the patches to files that the last commits changed, and a few others in turn.
func touched(ctx context.Context, patches []patch) ([]patch, error) {
	changed, err := git(ctx, ".", "log", "--format=", "--name-only", "-n", strconv.Itoa(recentCommits))
	if err != nil {
		return nil, err
	}
	count, err := git(ctx, ".", "rev-list", "--count", "HEAD")
	if err != nil {
		return nil, err
	}
	turn, err := strconv.Atoi(strings.TrimSpace(count))
	if err != nil {
		return nil, err
	}
	files := strings.Fields(changed)
	var picked, rest []patch
	for _, p := range patches {
		if slices.ContainsFunc(p.files, func(f string) bool { return slices.Contains(files, f) }) {
			picked = append(picked, p)
		} else {
			rest = append(rest, p)
		}
	}
	for i := range min(others, len(rest)) {
		picked = append(picked, rest[(turn*others+i)%len(rest)])
	}
	return picked, nil
}
