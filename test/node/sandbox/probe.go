package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Host says how containers run on this machine.
type Host struct {
	UserNamespace bool
	UpperOnTmpfs  bool
}

// Apply returns spec with the host's way of running containers.
func (h Host) Apply(spec Spec) Spec {
	spec.UserNamespace, spec.UpperOnTmpfs = h.UserNamespace, h.UpperOnTmpfs
	return spec
}

func (h Host) String() string {
	how, where := "as root", "on disk"
	if h.UserNamespace {
		how = "in user namespaces"
	}
	if h.UpperOnTmpfs {
		where = "in memory"
	}
	return "containers run " + how + ", their writes are kept " + where
}

// Probe finds, by running a container, how containers can run with their state
// below dir. The error says what to change on a machine where they cannot.
func Probe(dir string, userNamespace bool) (Host, error) {
	var errs []error
	for _, tmpfs := range []bool{false, true} {
		host := Host{UserNamespace: userNamespace, UpperOnTmpfs: tmpfs}
		err := try(dir, host)
		if err == nil {
			return host, nil
		}
		errs = append(errs, err)
	}
	advice := hints(userNamespace)
	return Host{}, fmt.Errorf("containers cannot run here: %w\n%s", errs[0], advice)
}

func try(dir string, host Host) error {
	box, err := os.MkdirTemp(dir, "probe-")
	if err != nil {
		return err
	}
	defer RemoveTree(box)
	c, err := Create(filepath.Join(box, "c"), host.Apply(Spec{
		Args: []string{"sh", "-c", "test $$ = 1 && : > /tmp/$(hostname)"}, Hostname: "probe",
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, WorkingDir: "/probe/new/directory",
	}))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	end, err := c.Wait(ctx)
	switch {
	case err != nil:
		return err
	case end.StartError != "":
		return errors.New(end.StartError)
	case end.Code != 0:
		log, _ := os.ReadFile(filepath.Join(c.Dir(), LogFile))
		return fmt.Errorf("a container for a test exited with %d: %s", end.Code, strings.TrimSpace(string(log)))
	}
	return nil
}

// hints names the settings that are known to forbid what containers need.
func hints(userNamespace bool) string {
	var lines []string
	setting := func(path, refused, advice string) {
		if b, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(b)) == refused {
			lines = append(lines, advice)
		}
	}
	if userNamespace {
		setting("/proc/sys/kernel/unprivileged_userns_clone", "0", "set it as root: sysctl -w kernel.unprivileged_userns_clone=1")
		setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "set it as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
		setting("/proc/sys/user/max_user_namespaces", "0", "set it as root: sysctl -w user.max_user_namespaces=10000")
	}
	if b, err := os.ReadFile("/proc/filesystems"); err == nil && !strings.Contains(string(b), "\toverlay\n") {
		lines = append(lines, "the kernel has no overlay file system loaded; as root: modprobe overlay")
	}
	if len(lines) == 0 && userNamespace {
		lines = append(lines, "run as root, or allow unprivileged user namespaces, with overlay mounts in them (Linux 5.12 or later);",
			"inside of another container, that container must be privileged")
	} else if len(lines) == 0 {
		lines = append(lines, "root needs CAP_SYS_ADMIN and Linux 5.12 or later; inside of another container, that container must be privileged")
	}
	return strings.Join(lines, "\n")
}
