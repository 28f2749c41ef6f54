package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Reference trains a job's steps without a cluster and without interruption, as
// fast as it can, and returns the loss curve.
func Reference(ctx context.Context, root string, j Job) ([]Loss, error) {
	dir, err := os.MkdirTemp("", "rtj-reference-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(root, ".venv", "bin")
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "rtj-run"), "--nproc", strconv.Itoa(or(j.Pods, 2)), "--",
		filepath.Join(bin, "python"), filepath.Join(root, "examples", "numpy", "train.py"))
	cmd.Dir = dir
	cmd.Env = append(cleanEnvironment(),
		"TRAIN_STORE="+filepath.Join(dir, "runs"), "TRAIN_STEP_SECONDS=0",
		"TRAIN_STEPS="+strconv.Itoa(or(j.Steps, 100)), "TRAIN_SEED="+strconv.Itoa(or(j.Seed, 1)))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("reference run: %w\n%s", err, tail(string(out), 20))
	}
	files, err := filepath.Glob(filepath.Join(dir, "runs", "*", "*", "*", "extra", "1", "losses.txt"))
	if err != nil || len(files) != 1 {
		return nil, fmt.Errorf("the reference run left %d files losses.txt\n%s", len(files), tail(string(out), 20))
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		return nil, err
	}
	return ParseLosses(string(content))
}

// cleanEnvironment is ours without what the SDK and the trainer read.
func cleanEnvironment() []string {
	var env []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "RTJ_") && !strings.HasPrefix(name, "TRAIN_") && !strings.HasPrefix(name, "FAULT_") &&
			name != "WORLD_SIZE" && name != "RANK" && name != "LOCAL_RANK" && name != "MASTER_PORT" {
			env = append(env, variable)
		}
	}
	return env
}

// tail returns the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}
