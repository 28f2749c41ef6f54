package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"syscall"
	"time"

	"rtj.dev/rtj/test/node/sandbox"
)

// EndAll ends all containers below a state directory, at once, and removes
// what belongs to them. No node may run on it.
func EndAll(dir string, out io.Writer) error {
	var errs []error
	for _, pattern := range []string{podsDir + "/*/" + containersDir + "/*/*", probesPattern + "/c"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		errs = append(errs, err)
		for _, c := range found {
			if err := end(c, out); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", c, err))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	probes, err := filepath.Glob(filepath.Join(dir, probesPattern))
	for _, p := range append(probes, filepath.Join(dir, podsDir)) {
		err = errors.Join(err, sandbox.RemoveTree(p))
	}
	return err
}

// probesPattern matches what sandbox.Probe makes in a state directory.
const probesPattern = "probe-*"

func end(dir string, out io.Writer) error {
	c, err := sandbox.Open(dir)
	if errors.Is(err, sandbox.ErrNotStarted) {
		return nil
	}
	if err != nil {
		return err
	}
	exit, err := c.Ended()
	if exit != nil || err != nil {
		return err
	}
	fmt.Fprintf(out, "ending %s\n", dir)
	if err := c.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err = c.Wait(ctx)
	return err
}

// Cleanup is EndAll for a whole state directory, which is removed.
func Cleanup(dir string, out io.Writer) error {
	unlock, err := sandbox.LockDir(dir)
	if err != nil {
		return fmt.Errorf("a node still runs on %s; end it first: %w", dir, err)
	}
	defer unlock()
	if err := EndAll(dir, out); err != nil {
		return err
	}
	return sandbox.RemoveTree(dir)
}
