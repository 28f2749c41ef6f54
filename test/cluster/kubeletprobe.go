package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"rtj.dev/rtj/test/cluster/internal/cgroup"
)

// debianPackages are what a kubelet node needs of the distribution.
const debianPackages = "containerd runc containernetworking-plugins"

// ProbeKubeletNode looks at everything that a kubelet node needs of the machine
// beside what every cluster needs.
func ProbeKubeletNode() []Finding {
	root := probeRoot(os.Geteuid())
	all := []Finding{root, probePrograms(func(program string) bool {
		_, err := exec.LookPath(program)
		return err == nil
	})}
	if root.Problem != "" {
		return all // what follows can only be tried by root
	}
	all = append(all, probeCgroups(), probePrivate())
	if cache, err := CacheDir(); err == nil {
		all = append(all, probeSnapshots(cache))
	}
	return all
}

// problems joins what a probe found missing; nil if all is there.
func problems(findings []Finding) error {
	var errs []error
	for _, f := range findings {
		if f.Problem != "" {
			errs = append(errs, fmt.Errorf("%s: %s: %s", f.What, f.Seen, f.Problem))
		}
	}
	return errors.Join(errs...)
}

func probeRoot(uid int) Finding {
	f := Finding{What: "root", Seen: "yes"}
	if uid != 0 {
		f.Seen = fmt.Sprintf("user %d", uid)
		f.Problem = "a kubelet makes cgroups and mounts, so only root can run one; use process nodes (NODE=process), or sudo"
	}
	return f
}

func probePrograms(there func(string) bool) Finding {
	f := Finding{What: "container runtime"}
	needed := []string{"containerd", "ctr", "containerd-shim-runc-v2", "runc"}
	for _, plugin := range []string{"bridge", "host-local", "loopback"} {
		needed = append(needed, filepath.Join(cniPluginDir, plugin))
	}
	var missing []string
	for _, program := range needed {
		if !there(program) {
			missing = append(missing, program)
		}
	}
	f.Seen = "containerd, runc and CNI plugins"
	if len(missing) > 0 {
		f.Seen = "not found: " + strings.Join(missing, ", ")
		f.Problem = "install it: apt-get update && apt-get install -y " + debianPackages
	}
	return f
}

func probeCgroups() Finding {
	f := Finding{What: "cgroups"}
	all, err := cgroup.Hierarchies()
	if err == nil {
		f.Seen, err = cgroup.Version(all)
	}
	if err != nil {
		f.Seen, f.Problem = "not as a kubelet needs them", err.Error()
		return f
	}
	name := fmt.Sprintf("rtj-probe-%d", os.Getpid())
	if err := errors.Join(cgroup.Create(name), cgroup.Remove(name)); err != nil {
		f.Problem = fmt.Sprintf("%v (in a container: run it with --privileged and --cgroupns=private)", err)
	}
	return f
}

// probePrivate tries what the node's namespaces are made of.
func probePrivate() Finding {
	f := Finding{What: "private namespaces", Seen: "mounts, network, overlay on /var/lib"}
	err := inNewNamespaces(syscall.CLONE_NEWNS|syscall.CLONE_NEWNET, func() error {
		dir, err := inMemory()
		if err != nil {
			return err
		}
		return mountOverlay("/var/lib", dir, "/var/lib")
	})
	if err != nil {
		f.Seen, f.Problem = "do not work", err.Error()+" (in a container: run it with --privileged)"
	}
	return f
}

func probeSnapshots(dir string) Finding {
	f := Finding{What: "snapshots of images", Seen: "overlayfs"}
	if err := overlayWritable(dir); err != nil {
		f.Seen = fmt.Sprintf("native, since an overlay in %s does not work: %v", dir, err)
	}
	return f
}

// overlayWritable tries whether an overlay can keep what is written in dir.
func overlayWritable(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	trial, err := os.MkdirTemp(dir, "probe")
	if err != nil {
		return err
	}
	defer removeTree(trial)
	return inNewNamespaces(syscall.CLONE_NEWNS, func() error {
		lower, merged := filepath.Join(trial, "lower"), filepath.Join(trial, "merged")
		if err := errors.Join(os.Mkdir(lower, 0o755), os.Mkdir(merged, 0o755)); err != nil {
			return err
		}
		if err := mountOverlay(lower, trial, merged); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(merged, "written"), nil, 0o600)
	})
}

// inMemory mounts a new file system in memory on a folder that is hidden by it.
func inMemory() (string, error) {
	dir := os.TempDir()
	return dir, os.NewSyscallError("mount tmpfs", syscall.Mount("tmpfs", dir, "tmpfs", 0, ""))
}

// mountOverlay lets what is written below merged, which shows lower, go to dir.
func mountOverlay(lower, dir, merged string) error {
	upper, work := filepath.Join(dir, "upper"), filepath.Join(dir, "work")
	if err := errors.Join(os.Mkdir(upper, 0o755), os.Mkdir(work, 0o755)); err != nil {
		return err
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, upper, work)
	return os.NewSyscallError("mount overlay", syscall.Mount("overlay", merged, "overlay", 0, options))
}

// inNewNamespaces calls f on a thread with namespaces of its own, which end with
// it: a goroutine that ends while it is locked to a thread ends the thread.
func inNewNamespaces(flags int, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := syscall.Unshare(flags); err != nil {
			done <- os.NewSyscallError("unshare", err)
			return
		}
		if flags&syscall.CLONE_NEWNS != 0 {
			if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
				done <- os.NewSyscallError("make mounts private", err)
				return
			}
		}
		done <- f()
	}()
	return <-done
}
