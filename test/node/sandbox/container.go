package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Container is a started container, by its directory.
type Container struct {
	dir  string
	run  Run
	spec Spec
}

// ErrNotStarted says that a directory holds no container that ever ran.
var ErrNotStarted = errors.New("the container was never started")

// Create starts a container in dir, which must not exist, and returns when its
// command runs. A command that cannot be started is no error here but an Exit
// with a StartError, which Wait returns.
func Create(dir string, spec Spec) (*Container, error) {
	if err := os.MkdirAll(filepath.Join(dir, layersDir), 0o755); err != nil {
		return nil, err
	}
	if err := writeJSON(filepath.Join(dir, specFile), spec); err != nil {
		return nil, err
	}
	lock, err := tryLock(filepath.Join(dir, lockFile))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	readyR, readyW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer readyR.Close()
	complaints, err := os.OpenFile(filepath.Join(dir, shimLogFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, err
	}
	defer complaints.Close()
	cmd := exec.Command(selfPath, ShimCommand, dir)
	cmd.Dir = "/"
	cmd.Env = []string{"GOMAXPROCS=2"}
	cmd.Stdout, cmd.Stderr = complaints, complaints
	cmd.ExtraFiles = []*os.File{lock, readyW}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = readyW.Close()
	if err != nil {
		return nil, err
	}
	// Reaps the shim; it ends with the container, or is inherited by PID 1 of
	// the machine when this process ends first.
	go func() { _ = cmd.Wait() }()
	_, _ = io.Copy(io.Discard, readyR)
	return Open(dir)
}

// Open finds the container of a directory, running or ended, whoever started it.
func Open(dir string) (*Container, error) {
	c := &Container{dir: dir}
	if err := readJSON(filepath.Join(dir, specFile), &c.spec); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, ErrNotStarted
		}
		return nil, err
	}
	for {
		// The order matters: a shim that ends between the two leaves a record.
		alive, err := locked(filepath.Join(dir, lockFile))
		if err != nil {
			return nil, err
		}
		err = readJSON(filepath.Join(dir, runFile), &c.run)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if _, err := os.Stat(filepath.Join(dir, exitFile)); err == nil {
			return c, nil
		}
		if !alive {
			return nil, ErrNotStarted
		}
		time.Sleep(10 * time.Millisecond) // the shim is about to write its record
	}
}

// Run returns the record of the start.
func (c *Container) Run() Run { return c.run }

// Dir returns the container's directory.
func (c *Container) Dir() string { return c.dir }

// Ended returns the record of the end, or nil while the container runs.
func (c *Container) Ended() (*Exit, error) {
	alive, err := locked(filepath.Join(c.dir, lockFile))
	if err != nil {
		return nil, err
	}
	var end Exit
	switch err := readJSON(filepath.Join(c.dir, exitFile), &end); {
	case err == nil:
		return &end, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case alive:
		return nil, nil
	}
	end = Exit{Code: CodeLost, Lost: true, FinishedAt: time.Now()}
	return &end, writeJSON(filepath.Join(c.dir, exitFile), end)
}

// Wait returns the record of the end, once there is one.
func (c *Container) Wait(ctx context.Context) (*Exit, error) {
	for {
		end, err := c.Ended()
		if end != nil || err != nil {
			return end, err
		}
		if err := waitProcess(ctx, c.run.ShimPID); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(5 * time.Millisecond): // from the shim's end to its lock's release
		}
	}
}

// waitProcess returns when the process has ended; it need not be a child.
func waitProcess(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("watch process %d: %w", pid, err)
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	stop := context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) })
	defer file.Close()
	defer stop()
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	err = conn.Read(func(fd uintptr) bool {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, 0)
		return err == nil && n > 0
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Signal sends a signal to the container's command. The kernel ignores one
// that the command does not handle (it is PID 1), except SIGKILL, which ends
// the whole container. A container that has ended is no error.
func (c *Container) Signal(sig syscall.Signal) error {
	if c.run.InitPID == 0 {
		return nil
	}
	fd, err := unix.PidfdOpen(c.run.InitPID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// The pidfd holds the process; only now can its identity be judged.
	if !c.isInit() {
		return nil
	}
	err = unix.PidfdSendSignal(fd, sig, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// isInit says whether the process with the init's pid is the init.
func (c *Container) isInit() bool {
	boot, err := bootID()
	if err != nil || boot != c.run.BootID {
		return false
	}
	start, err := startTicks(c.run.InitPID)
	return err == nil && start == c.run.InitStart
}

// Exec runs a command inside the container, in its environment, and returns its
// exit code. When ctx ends the command is killed and the code is -1.
func (c *Container) Exec(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return -1, errors.New("exec in a container needs nsenter (package util-linux)")
	}
	if !c.isInit() {
		return -1, errors.New("the container does not run")
	}
	in := []string{"--target", strconv.Itoa(c.run.InitPID), "--mount", "--pid", "--uts", "--ipc", "--root", "--wd", "--preserve-credentials"}
	if c.spec.UserNamespace {
		in = append(in, "--user")
	}
	cmd := exec.CommandContext(ctx, nsenter, append(append(in, "--"), args...)...)
	cmd.Env = c.spec.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	// ErrWaitDelay: it ended, and somebody still holds its input or output.
	if exit := (*exec.ExitError)(nil); err == nil || errors.As(err, &exit) || errors.Is(err, exec.ErrWaitDelay) {
		return cmd.ProcessState.ExitCode(), nil
	}
	return -1, err
}

// Remove deletes the directory of a container that has ended.
func (c *Container) Remove() error { return RemoveTree(c.dir) }

// Trim deletes what an ended container wrote to its root; records and log stay.
func (c *Container) Trim() error { return RemoveTree(filepath.Join(c.dir, layersDir)) }

// RemoveTree is os.RemoveAll that also passes directories without permissions,
// which overlays and containers leave behind.
func RemoveTree(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		return os.Chmod(p, 0o700)
	})
	return os.RemoveAll(path)
}

func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

func locked(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	// A shared lock: two readers at once must not take each other for a shim.
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// startTicks reads when a process started, in clock ticks since boot: field 22
// of proc_pid_stat(5).
func startTicks(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// Field 2 is the command in parentheses and may hold any byte.
	rest := b[bytes.LastIndexByte(b, ')')+1:]
	fields := strings.Fields(string(rest))
	if len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat has an unknown form", pid)
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

// LockDir takes a directory for one process, until unlock is called or the
// process ends.
func LockDir(dir string) (unlock func(), err error) {
	f, err := tryLock(filepath.Join(dir, lockFile))
	if err != nil {
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}
