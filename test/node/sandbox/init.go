package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// initContainer becomes the command of the container in dir. It returns only
// if that cannot be done, and has told the shim why.
func initContainer(dir string) error {
	report := os.NewFile(initErrFD, "report")
	if _, err := io.Copy(io.Discard, os.NewFile(initGoFD, "go")); err != nil {
		return err
	}
	err := enter(dir)
	_, _ = report.WriteString(err.Error())
	os.Exit(1)
	return nil
}

func enter(dir string) error {
	runtime.LockOSThread() // the parent death signal belongs to a thread
	var spec Spec
	if err := readJSON(filepath.Join(dir, specFile), &spec); err != nil {
		return err
	}
	unix.Umask(0)
	newRoot, err := assembleRoot(dir, &spec)
	if err != nil {
		return err
	}
	if err := pivot(newRoot); err != nil {
		return err
	}
	unix.Umask(0o022)
	if err := unix.Sethostname([]byte(spec.Hostname)); err != nil {
		return fmt.Errorf("set hostname %s: %w", spec.Hostname, err)
	}
	working := spec.WorkingDir
	if working == "" {
		working = "/"
	}
	if err := os.Chdir(working); err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	if err := become(&spec); err != nil {
		return err
	}
	path, err := lookPath(spec.Args[0], spec.Env)
	if err != nil {
		return err
	}
	err = syscall.Exec(path, spec.Args, spec.Env)
	return fmt.Errorf("exec %s: %w", path, err)
}

// pivot makes newRoot the root and lets go of the host's.
func pivot(newRoot string) error {
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	// With both arguments ".", the old root ends up stacked on the new one
	// and needs no directory of its own: pivot_root(2), NOTES.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the host's root: %w", err)
	}
	return os.Chdir("/")
}

// become takes the user and groups of the command.
func become(spec *Spec) error {
	if !spec.UserNamespace {
		if err := syscall.Setgroups(spec.Groups); err != nil {
			return fmt.Errorf("set groups: %w", err)
		}
	}
	if spec.GID != 0 {
		if err := syscall.Setgid(spec.GID); err != nil {
			return fmt.Errorf("set group %d: %w", spec.GID, err)
		}
	}
	if spec.UID != 0 {
		if err := syscall.Setuid(spec.UID); err != nil {
			return fmt.Errorf("set user %d: %w", spec.UID, err)
		}
	}
	// Changing the user clears the parent death signal.
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
}

// lookPath finds a command as execvp does, in the container's PATH.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := ""
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		candidate := filepath.Join(dir, name)
		if info, err := os.Stat(candidate); err == nil && !info.IsDir() && unix.Access(candidate, unix.X_OK) == nil {
			return candidate, nil
		}
	}
	if path == "" {
		return "", errors.New("no PATH to look for " + name + " in")
	}
	return "", fmt.Errorf("executable %q not found in PATH %s", name, path)
}
