// Package proc starts and ends the processes of a local cluster so that they
// outlive the command that started them and can be found again later by any
// other command, without ever touching a process that merely got the same pid.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Identity names one process for as long as the machine is up: a pid alone is
// recycled, a pid with its start time and the boot it belongs to is not.
type Identity struct {
	PID int `json:"pid"`
	// StartTicks is field 22 of /proc/PID/stat: clock ticks since boot.
	StartTicks uint64 `json:"startTicks"`
	BootID     string `json:"bootID"`
}

// Self identifies the calling process.
func Self() (Identity, error) { return Identify(os.Getpid()) }

// Identify reads the identity of a process that runs now.
func Identify(pid int) (Identity, error) {
	st, err := readStat(pid)
	if err != nil {
		return Identity{}, err
	}
	boot, err := bootID()
	if err != nil {
		return Identity{}, err
	}
	return Identity{PID: pid, StartTicks: st.startTicks, BootID: boot}, nil
}

// Alive reports whether exactly this process still runs. A zombie has ended:
// it only waits for a parent that may never look.
func (id Identity) Alive() bool {
	if id.PID <= 0 {
		return false
	}
	boot, err := bootID()
	if err != nil || boot != id.BootID {
		return false
	}
	st, err := readStat(id.PID)
	if err != nil {
		return false
	}
	return st.startTicks == id.StartTicks && (st.state != 'Z' && st.state != 'X' || threadsLeft(id.PID))
}

// threadsLeft reports whether threads beside the first are left. A process that
// was killed shows its first thread as a zombie while others still end, and holds
// its ports and files until the last one has.
func threadsLeft(pid int) bool {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return err == nil && len(threads) > 1
}

// Signal sends sig to exactly this process and reports whether it was there.
// os.FindProcess holds a pidfd, so a pid that is recycled after the check of
// the start time is not hit.
func (id Identity) Signal(sig syscall.Signal) (bool, error) {
	p, err := os.FindProcess(id.PID)
	if err != nil {
		return false, nil
	}
	defer p.Release()
	if !id.Alive() {
		return false, nil
	}
	if err := p.Signal(sig); err != nil {
		if errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
			return false, nil
		}
		return false, fmt.Errorf("signal %v to pid %d: %w", sig, id.PID, err)
	}
	return true, nil
}

// WaitGone waits until the process has ended, at most for the given time, and
// reports whether it has.
func (id Identity) WaitGone(limit time.Duration) bool {
	deadline := time.Now().Add(limit)
	for id.Alive() {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
	return true
}

// ResidentBytes is the process's resident memory, 0 where it cannot be read.
func (id Identity) ResidentBytes() int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", id.PID))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

type stat struct {
	state      byte
	startTicks uint64
}

func readStat(pid int) (stat, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	return parseStat(data)
}

// parseStat reads the fields that follow the command name, which stands in
// parentheses and may itself hold blanks and parentheses (proc_pid_stat(5)).
func parseStat(data []byte) (stat, error) {
	end := bytes.LastIndexByte(data, ')')
	if end < 0 {
		return stat{}, errors.New("malformed stat: no command name")
	}
	fields := strings.Fields(string(data[end+1:]))
	const stateField, startField = 0, 19 // fields 3 and 22, counted from the one after the name
	if len(fields) <= startField || len(fields[stateField]) != 1 {
		return stat{}, errors.New("malformed stat: too few fields")
	}
	ticks, err := strconv.ParseUint(fields[startField], 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("malformed stat: start time: %w", err)
	}
	return stat{state: fields[stateField][0], startTicks: ticks}, nil
}

func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(data)), nil
}
