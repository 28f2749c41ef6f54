// Package namespaces gives a node a mount namespace and a network namespace of
// its own, which one small process holds. Everything that a kubelet and a
// container runtime mount, link and listen on is in them, and is gone when the
// last process in them is: nothing is left on the machine.
package namespaces

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// RunDir is the node's own folder in its /run: the marks and sockets by which
// the parts of the node find each other.
const RunDir = "/run/kubelet-node"

// readyFile is there once the namespaces are set up.
const readyFile = RunDir + "/ready"

// Options of Hold.
type Options struct {
	// Dir is where the node keeps its data: that of the kubelet, of containerd,
	// and the logs of containers.
	Dir string
	// Addresses that the node has beside 127.0.0.1, all of them IPv4 and of no
	// other machine: those of the cluster's Services that it serves itself.
	Addresses []string
}

// data are folders of the node that lie in Options.Dir. Some of the paths that
// a kubelet and containerd use cannot be configured.
var data = []struct{ path, name string }{
	{"/var/lib/kubelet", "kubelet"},
	{"/var/lib/containerd", "containerd"},
	{"/var/log", "log"},
}

// Hold sets the calling process's namespaces up, which must be new: nobody else
// may be in them. The caller then only has to live.
//
// /run is empty and in memory, and so is what is written below /var/lib, the
// data excepted. A few settings of the kernel look as a kubelet wants them. All
// else is as outside.
func Hold(o Options) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, d := range data {
		if err := os.MkdirAll(filepath.Join(o.Dir, d.name), 0o755); err != nil {
			return err
		}
	}
	// It stays reachable at its path, whatever is laid over it.
	dir, err := os.Open(o.Dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mount a private /run: %w", err)
	}
	if err := overlay("/var/lib", RunDir+"/var-lib"); err != nil {
		return err
	}
	if err := pretendSettings(RunDir + "/settings"); err != nil {
		return err
	}
	if err := keep(dir, o.Dir); err != nil {
		return err
	}
	for _, d := range data {
		if err := os.MkdirAll(d.path, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(filepath.Join(o.Dir, d.name), d.path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("keep %s in %s: %w", d.path, o.Dir, err)
		}
	}
	if err := keep(dir, o.Dir); err != nil {
		return err
	}
	for _, address := range append([]string{"127.0.0.1"}, o.Addresses...) {
		if err := addAddress(address); err != nil {
			return err
		}
	}
	return os.WriteFile(readyFile, nil, 0o600)
}

// overlay lets what is written below path go to dir.
func overlay(path, dir string) error {
	upper, work := filepath.Join(dir, "upper"), filepath.Join(dir, "work")
	for _, d := range []string{upper, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", path, upper, work)
	return wrap(unix.Mount("overlay", path, "overlay", 0, options), "mount an overlay on a private "+path)
}

// settings are what a kubelet wants the kernel's to be, and makes them on the
// whole machine where they are not.
var settings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// pretendSettings lets the node read the settings that a kubelet wants, so that it
// leaves the machine's alone.
func pretendSettings(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, value := range settings {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, filepath.Join("/proc/sys", name), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("pretend that %s is %s: %w", name, value, err)
		}
	}
	return nil
}

// keep makes an open folder appear at its path again where a mount has hidden it.
func keep(dir *os.File, path string) error {
	was, err := dir.Stat()
	if err != nil {
		return err
	}
	if now, err := os.Stat(path); err == nil && os.SameFile(was, now) {
		return nil
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return wrap(unix.Mount(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), path, "", unix.MS_BIND|unix.MS_REC, ""), "keep "+path)
}

// addAddress gives the loopback interface an address and switches it on. Each
// further one goes to a label of its own (netdevice(7)).
func addAddress(address string) error {
	name := "lo"
	if address != "127.0.0.1" {
		// A label is at most 15 characters long.
		name += ":" + strings.Join(strings.Split(address, ".")[1:], "")
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	var ip [4]byte
	if _, err := fmt.Sscanf(address, "%d.%d.%d.%d", &ip[0], &ip[1], &ip[2], &ip[3]); err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	request, err := unix.NewIfreq(name)
	if err != nil {
		return fmt.Errorf("address %s: %w", address, err)
	}
	if err := request.SetInet4Addr(ip[:]); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFADDR, request); err != nil {
		return fmt.Errorf("give %s to %s: %w", address, name, err)
	}
	if name != "lo" {
		// Just this address, not the network around it.
		if err := request.SetInet4Addr([]byte{255, 255, 255, 255}); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(socket, unix.SIOCSIFNETMASK, request); err != nil {
			return fmt.Errorf("netmask of %s: %w", name, err)
		}
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCGIFFLAGS, request); err != nil {
		return err
	}
	request.SetUint16(request.Uint16() | unix.IFF_UP)
	return wrap(unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request), "switch "+name+" on")
}

func wrap(err error, what string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Ready reports whether the holder with this pid has set its namespaces up.
func Ready(holder int) bool {
	_, err := os.Stat(Path(holder, readyFile))
	return err == nil
}

// Path is where a path of the holder's mount namespace can be found from
// outside. It must not lead through absolute symbolic links.
func Path(holder int, path string) string {
	return filepath.Join(fmt.Sprintf("/proc/%d/root", holder), path)
}

// Exec executes a program in the holder's namespaces in place of the caller.
func Exec(holder int, argv []string) error {
	for _, ns := range []struct {
		name string
		kind int
	}{{"net", unix.CLONE_NEWNET}, {"mnt", unix.CLONE_NEWNS}} {
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/%s", holder, ns.name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("the node's %s namespace: %w", ns.name, err)
		}
		if ns.kind == unix.CLONE_NEWNS {
			// Not possible while threads share their root and working folder.
			if err := unix.Unshare(unix.CLONE_FS); err != nil {
				return err
			}
		}
		if err := unix.Setns(fd, ns.kind); err != nil {
			return fmt.Errorf("enter the node's %s namespace: %w", ns.name, err)
		}
	}
	return fmt.Errorf("execute %s: %w", argv[0], syscall.Exec(argv[0], argv, os.Environ()))
}
