// Package sandbox runs one container as a host process on Linux.
//
// Three processes take part, all of them this binary:
//
//   - the caller (the node) writes the Spec and starts the shim;
//   - the shim, which is detached and outlives the caller, starts the init
//     in new namespaces, records its pid, waits for it and records how it ended;
//   - the init, PID 1 of the container, assembles the root and becomes the
//     command by execve.
//
// What is known about a container is what its directory says, so a caller that
// was restarted reads the same truth as one that was not. The shim holds an
// exclusive lock on the directory's lock file for as long as it lives: lock
// free and no record of an end means that the shim was killed, and the kernel
// has killed the container with it (parent death signal).
package sandbox

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// Subcommands under which the binary that uses this package must call Main.
const (
	ShimCommand = "container-shim"
	InitCommand = "container-init"
)

// Files in a container's directory.
const (
	specFile = "spec.json"
	runFile  = "run.json"
	exitFile = "exit.json"
	lockFile = "lock"
	// LogFile receives stdout and stderr of the command, unmodified.
	LogFile = "log"
	// layersDir holds the root and what the container wrote to it.
	layersDir   = "layers"
	shimLogFile = "shim.log"
)

// Spec is everything that a container is made from.
type Spec struct {
	// Args is the command with its arguments; Args[0] is looked up in PATH of Env.
	Args []string
	// Env holds KEY=VALUE, complete: nothing of the caller's environment is added.
	Env []string
	// WorkingDir is created if it does not exist. Empty means "/".
	WorkingDir string
	Hostname   string
	Mounts     []Mount
	// UID and GID of the command; 0 is the user that the container maps to root.
	UID, GID int
	// Groups are supplementary groups.
	Groups []int
	// UserNamespace makes the caller's user root of a user namespace, so that
	// no privilege is needed. Only UID and GID 0 exist in it.
	UserNamespace bool
	// UpperOnTmpfs keeps what the container writes to its root in memory, for
	// hosts whose file system cannot hold the upper layer of an overlay.
	UpperOnTmpfs bool
}

// Mount puts a host file or directory at a path of the container.
type Mount struct {
	Source   string // host path; must exist
	Target   string // absolute path in the container; created if need be
	ReadOnly bool
	// SubPath below Source, resolved without leaving Source.
	SubPath string
}

// Run is the record of a started container.
type Run struct {
	ShimPID   int
	InitPID   int
	StartedAt time.Time
	// InitStart is the start time of the init in clock ticks since boot; with
	// the pid it names one process for ever.
	InitStart uint64
	BootID    string
}

// Exit is the record of an ended container.
type Exit struct {
	// Code is the exit code, or 128 + signal.
	Code       int
	Signal     int `json:",omitempty"`
	FinishedAt time.Time
	// StartError says why the command could not be started; Code is then 128.
	StartError string `json:",omitempty"`
	// Lost means that nobody saw the end: the shim was killed or the machine
	// was restarted.
	Lost bool `json:",omitempty"`
}

// CodeLost is the exit code of a container whose end nobody saw, the same as a
// kubelet reports.
const CodeLost = 137

// CodeStartError is the exit code of a command that could not be started.
const CodeStartError = 128

func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// writeJSON replaces path at once: readers see the old content or the new.
func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, werr := tmp.Write(b)
	if err := errors.Join(werr, tmp.Close()); err != nil {
		_ = os.Remove(tmp.Name())
		return err
	}
	return os.Rename(tmp.Name(), path)
}
