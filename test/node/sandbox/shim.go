package sandbox

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// File descriptors that the caller hands to the shim, and the shim to the init;
// Main has marked them to be closed on exec.
const (
	shimLockFD  = 3 // shim: the locked lock file
	shimReadyFD = 4 // shim: closed once the command runs, or its start has failed
	initGoFD    = 3 // init: EOF means that the shim has recorded the init's pid
	initErrFD   = 4 // init: receives why the command cannot be started
)

// selfPath is this binary, also after its file was replaced or deleted.
const selfPath = "/proc/self/exe"

// Main runs a subcommand of this package, if args (without the program name)
// name one, and does not return then. It must be the first that a program does:
// it also keeps files that the program has inherited from its containers.
func Main(args []string) {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		fmt.Fprintln(os.Stderr, "close inherited files on exec:", err)
		os.Exit(1)
	}
	if len(args) != 2 {
		return
	}
	var err error
	switch args[0] {
	case ShimCommand:
		err = shim(args[1])
	case InitCommand:
		err = initContainer(args[1])
	default:
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, args[0]+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// shim starts the container of dir and waits for its end.
func shim(dir string) error {
	// The parent death signal of the init is tied to the thread that started it.
	runtime.LockOSThread()
	// A shim ends when its container does. Signals meant to end it (a terminal
	// that closes, a tidy-up by process group) would lose the exit code.
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE)
	ready := os.NewFile(shimReadyFD, "ready")

	var spec Spec
	if err := readJSON(filepath.Join(dir, specFile), &spec); err != nil {
		return err
	}
	end, err := runInit(dir, &spec, func() { _ = ready.Close() })
	if err != nil {
		end = Exit{Code: CodeStartError, StartError: err.Error(), FinishedAt: time.Now()}
	}
	if err := writeJSON(filepath.Join(dir, exitFile), end); err != nil {
		return err
	}
	return ready.Close()
}

// runInit starts the init and returns how it ended. started is called when the
// command runs.
func runInit(dir string, spec *Spec, started func()) (Exit, error) {
	log, err := os.OpenFile(filepath.Join(dir, LogFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return Exit{}, err
	}
	defer log.Close()
	goR, goW, err := os.Pipe()
	if err != nil {
		return Exit{}, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return Exit{}, err
	}
	cmd := exec.Command(selfPath, InitCommand, dir)
	cmd.Env = []string{"GOMAXPROCS=1"}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{goR, errW}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Pdeathsig:  syscall.SIGKILL,
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
	}
	if spec.UserNamespace {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	err = cmd.Start()
	_, _ = goR.Close(), errW.Close()
	if err != nil {
		return Exit{}, fmt.Errorf("start in new namespaces: %w", err)
	}
	// The command may not run before the record says which process it is.
	err = recordRun(dir, cmd.Process.Pid)
	if err != nil {
		_ = cmd.Process.Kill()
	}
	_ = goW.Close()
	message, rerr := io.ReadAll(errR) // ends at the execve, or with the init
	_ = errR.Close()
	if len(message) == 0 {
		started()
	}
	// Reaping PID 1 of a PID namespace waits for all of its descendants.
	werr := cmd.Wait()
	if err := errors.Join(err, rerr); err != nil {
		return Exit{}, err
	}
	if len(message) > 0 {
		return Exit{}, errors.New(string(message))
	}
	if exit := (*exec.ExitError)(nil); werr != nil && !errors.As(werr, &exit) {
		return Exit{}, werr
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	end := Exit{Code: status.ExitStatus(), FinishedAt: time.Now()}
	if status.Signaled() {
		end.Code, end.Signal = 128+int(status.Signal()), int(status.Signal())
	}
	return end, nil
}

func recordRun(dir string, pid int) error {
	start, err := startTicks(pid)
	if err != nil {
		return err
	}
	boot, err := bootID()
	if err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, runFile), Run{
		ShimPID: os.Getpid(), InitPID: pid, InitStart: start, BootID: boot, StartedAt: time.Now(),
	})
}
