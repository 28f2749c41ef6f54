// Package cgroup makes the cgroup below which a kubelet keeps its pods, and ends
// and removes it with all that is in it. It serves both versions of cgroups and
// the mixture of them (cgroups(7)).
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// mountsFile lists the caller's mounts.
const mountsFile = "/proc/self/mounts"

// Hierarchy is one mounted tree of cgroups.
type Hierarchy struct {
	Path string
	// Unified is version 2, which has all controllers in one tree.
	Unified bool
	// Options of the mount; those of version 1 name its controllers.
	Options []string
}

// Hierarchies that are mounted below /sys/fs/cgroup, or there.
func Hierarchies() ([]Hierarchy, error) {
	mounts, err := os.ReadFile(mountsFile)
	if err != nil {
		return nil, err
	}
	return parse(string(mounts)), nil
}

func parse(mounts string) []Hierarchy {
	var all []Hierarchy
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) < 4 || f[1] != "/sys/fs/cgroup" && !strings.HasPrefix(f[1], "/sys/fs/cgroup/") {
			continue
		}
		switch f[2] {
		case "cgroup2":
			all = append(all, Hierarchy{Path: f[1], Unified: true})
		case "cgroup":
			all = append(all, Hierarchy{Path: f[1], Options: strings.Split(f[3], ",")})
		}
	}
	return all
}

// Create makes the cgroup in every hierarchy, ready for processes and further
// cgroups. One that is there is kept.
func Create(name string) error {
	all, err := Hierarchies()
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("no cgroups are mounted below /sys/fs/cgroup")
	}
	for _, h := range all {
		if err := create(h, name, len(all) == 1); err != nil {
			return fmt.Errorf("cgroup %s in %s: %w", name, h.Path, err)
		}
	}
	return nil
}

func create(h Hierarchy, name string, only bool) error {
	dir := filepath.Join(h.Path, name)
	if h.Unified && only {
		// What a cgroup may not hand on, those below it do not have.
		for _, controller := range []string{"cpuset", "cpu", "io", "memory", "pids", "hugetlb"} {
			_ = write(filepath.Join(h.Path, "cgroup.subtree_control"), "+"+controller)
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if !slices.Contains(h.Options, "cpuset") {
		return nil
	}
	// A cpuset is empty at first, and then holds no process.
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(h.Path, file))
		if err != nil {
			return err
		}
		if err := write(filepath.Join(dir, file), strings.TrimSpace(string(value))); err != nil {
			return err
		}
	}
	return nil
}

func write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(value)
	return err
}

// removeLimit bounds the end of what is in a cgroup.
const removeLimit = 20 * time.Second

// Remove kills all processes in the cgroup and below it, in every hierarchy, and
// removes it. It is no error if it is not there.
func Remove(name string) error {
	all, err := Hierarchies()
	if err != nil {
		return err
	}
	var dirs []string
	for _, h := range all {
		dirs = append(dirs, filepath.Join(h.Path, name))
	}
	return remove(dirs, removeLimit)
}

func remove(dirs []string, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		var left error
		for _, dir := range dirs {
			if err := removeTree(dir); err != nil {
				left = err
			}
		}
		if left == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s: %w", limit, left)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// removeTree kills what is in a cgroup and below it, and removes what is empty.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	pids, err := processes(dir)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill %d in %s: %w", pid, dir, err)
		}
	}
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}

func processes(dir string) ([]int, error) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, field := range strings.Fields(string(data)) {
		// A process of another PID namespace shows as 0; there is none of ours.
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Version names the version that has the controllers which a kubelet needs, or
// says which are missing.
func Version(all []Hierarchy) (string, error) {
	needed := []string{"cpu", "cpuset", "memory", "pids"}
	found := map[string]bool{}
	unified := ""
	for _, h := range all {
		for _, option := range h.Options {
			found[option] = true
		}
		if h.Unified {
			unified = h.Path
		}
	}
	missing := slices.DeleteFunc(slices.Clone(needed), func(c string) bool { return found[c] })
	if len(missing) == 0 {
		return "version 1", nil
	}
	if len(all) != 1 || unified == "" {
		return "", fmt.Errorf("no controllers %s below /sys/fs/cgroup; mount them, or start Linux with systemd.unified_cgroup_hierarchy=1", strings.Join(missing, ", "))
	}
	data, err := os.ReadFile(filepath.Join(unified, "cgroup.controllers"))
	if err != nil {
		return "", err
	}
	has := strings.Fields(string(data))
	if missing = slices.DeleteFunc(needed, func(c string) bool { return slices.Contains(has, c) }); len(missing) > 0 {
		return "", fmt.Errorf("%s has no controllers %s", unified, strings.Join(missing, ", "))
	}
	return "version 2", nil
}
