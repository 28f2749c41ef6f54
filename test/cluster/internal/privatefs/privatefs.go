// Package privatefs runs a program in a mount namespace of its own in which
// /etc holds a few more files. Kueue reads certificates from a folder below
// /etc that cannot be configured; the machine's own /etc is not written.
//
// The program is started by running the calling executable again under the
// name [Arg0]: an init function of this package then sets the mounts up and
// executes the program in its place, so its pid is the one that was started.
// An init function, because a test binary has no main function of ours.
package privatefs

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// Arg0 is the name under which the executable sets up the mounts.
const Arg0 = "rtj-private-etc"

// Args are the arguments with which the executable, started as Arg0, runs
// program with the files below overlay laid over /etc.
func Args(overlay, program string, args ...string) []string {
	return append([]string{overlay, program}, args...)
}

// Sys are the attributes with which it must be started: a mount namespace, and
// where the caller is not root a user namespace to own it.
func Sys() *syscall.SysProcAttr {
	sys := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		sys.Cloneflags |= syscall.CLONE_NEWUSER
		sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return sys
}

func init() {
	if len(os.Args) == 0 || os.Args[0] != Arg0 {
		return
	}
	runtime.LockOSThread()
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, Arg0+":", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("needs an overlay, a program and its arguments")
	}
	overlay, program := args[0], args[1]
	// Nothing that is mounted here may appear outside.
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// Two lower layers and no upper one: read-only, so nothing is ever written
	// to either, and the state folder may itself lie on an overlay.
	options := "lowerdir=" + escape(overlay) + ":/etc"
	if err := syscall.Mount("overlay", "/etc", "overlay", syscall.MS_RDONLY, options); err != nil {
		return fmt.Errorf("mount an overlay on a private /etc: %w", err)
	}
	return fmt.Errorf("execute %s: %w", program, syscall.Exec(program, args[1:], os.Environ()))
}

// escape protects the characters that separate overlay options and layers.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, ":", `\:`, ",", `\,`).Replace(path)
}

// Probe says whether this machine lets the caller do it, and if not what to
// set. It reads settings and then tries.
func Probe() error {
	if os.Geteuid() != 0 {
		for _, s := range []struct{ path, bad, fix string }{
			{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"},
			{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
			{"/proc/sys/user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=15000"},
			{"/proc/sys/user/max_mnt_namespaces", "0", "sudo sysctl -w user.max_mnt_namespaces=15000"},
		} {
			data, err := os.ReadFile(s.path)
			if err == nil && strings.TrimSpace(string(data)) == s.bad {
				return fmt.Errorf("%s is %s, so user %d may not create a user namespace; run: %s",
					s.path, s.bad, os.Geteuid(), s.fix)
			}
		}
	}
	return try()
}

func try() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	overlay, err := os.MkdirTemp("", "rtj-probe-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(overlay)
	mark := "rtj-probe-" + strconv.Itoa(os.Getpid())
	if err := os.WriteFile(overlay+"/"+mark, nil, 0o644); err != nil {
		return err
	}
	sh, err := findShell()
	if err != nil {
		return err
	}
	out, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	argv := append([]string{Arg0}, Args(overlay, sh, "-c", "test -f /etc/"+mark+" && test -f /etc/passwd")...)
	p, err := os.StartProcess(exe, argv, &os.ProcAttr{Env: []string{}, Files: []*os.File{nil, w, w}, Sys: Sys()})
	_ = w.Close()
	if err != nil {
		return fmt.Errorf("start a process in new namespaces as user %d: %w (root, or unprivileged user namespaces, are needed; in a container: --privileged or --security-opt seccomp=unconfined)", os.Geteuid(), err)
	}
	buf := make([]byte, 4096)
	n, _ := out.Read(buf)
	state, err := p.Wait()
	if err != nil {
		return err
	}
	if !state.Success() {
		return fmt.Errorf("an overlay over a private /etc does not work here: %s: %s", state, strings.TrimSpace(string(buf[:n])))
	}
	return nil
}

func findShell() (string, error) {
	for _, sh := range []string{"/bin/sh", "/usr/bin/sh"} {
		if _, err := os.Stat(sh); err == nil {
			return sh, nil
		}
	}
	return "", errors.New("no /bin/sh")
}
