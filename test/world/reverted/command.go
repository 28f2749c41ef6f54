package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// tool is what runs a command of the table.
type tool string

const (
	goTest tool = "test"
	sim    tool = "sim"
	pytest tool = "pytest"
)

// show is a command that shows a bug: it fails while the bug is there.
type show struct {
	name string
	tool tool
	args []string
}

// command is the one that a name in the table stands for.
func command(name string) (show, error) {
	s := show{name: name}
	switch folder, rest, _ := strings.Cut(name, "/"); {
	case folder == "sync":
		s.tool, s.args = goTest, []string{"./hooks", "-run", "^TestGolden$/^" + rest + "$"}
	case folder == "lifecycle":
		s.tool, s.args = goTest, []string{"./test/lifecycle", "-run", "^TestScripts$/^" + rest + "$"}
	case strings.HasPrefix(name, "go test "):
		s.tool, s.args = goTest, strings.Fields(name)[2:]
	case strings.HasPrefix(name, "make sim SEED="):
		s.tool, s.args = sim, []string{"-seed", strings.TrimPrefix(name, "make sim SEED="), "-tries", "0"}
	case strings.HasPrefix(name, "go run ./test/world/sim "):
		s.tool, s.args = sim, strings.Fields(name)[3:]
	case strings.HasPrefix(name, "test_") && strings.Contains(name, ".py::"):
		s.tool, s.args = pytest, []string{"tests/" + name}
	default:
		return s, fmt.Errorf("%q is nothing that can be run", name)
	}
	return s, nil
}

// patience is how long one command may take.
const patience = 10 * time.Minute

// run runs the command upon a tree, and tells whether it passed. It is an error if it
// came to no result.
func (s show) run(ctx context.Context, t *tree) (passed bool, output string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var c *exec.Cmd
	failed := "FAIL"
	switch s.tool {
	case goTest:
		c = exec.CommandContext(ctx, "go", append([]string{"test", "-overlay", t.overlay}, s.args...)...)
		c.Dir = t.root
	case sim:
		if err := t.buildSim(ctx); err != nil {
			return false, "", err
		}
		c = exec.CommandContext(ctx, t.sim, s.args...)
		c.Dir = t.root
	case pytest:
		python := filepath.Join(t.root, ".venv/bin/python")
		if _, err := os.Stat(python); err != nil {
			return false, "", fmt.Errorf("there is no .venv: run make venv")
		}
		c = exec.CommandContext(ctx, python, append([]string{"-m", "pytest", "-q", "-p", "no:cacheprovider"}, s.args...)...)
		c.Dir = filepath.Join(t.root, "sdk/python")
		c.Env = append(os.Environ(), "PYTHONPATH="+t.sdk, "PYTHONDONTWRITEBYTECODE=1")
		failed = "FAILED"
	}
	c.WaitDelay = time.Second
	text, err := c.CombinedOutput()
	output = string(text)
	switch {
	case ctx.Err() != nil:
		return false, output, fmt.Errorf("%s: %w", s.name, ctx.Err())
	case err == nil && (strings.Contains(output, "no tests to run") || strings.Contains(output, "[no test files]")):
		return false, output, fmt.Errorf("%s: there is no such test", s.name)
	case err == nil:
		return true, output, nil
	case strings.Contains(output, "[build failed]") || strings.Contains(output, "[setup failed]") || !strings.Contains(output, failed):
		return false, output, fmt.Errorf("%s: %w", s.name, err)
	}
	return false, output, nil
}
