package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"rtj.dev/rtj/test/harness"
)

// runner is what runs the hooks: the operator, or Metacontroller and `rtj hooks`.
type runner struct {
	name string
	pids []int
}

// usage is what processes have used since they started.
type usage struct {
	cpu time.Duration
	// peak is the sum of the largest resident memories, in bytes.
	peak int64
}

func (r *runner) used() (usage, error) {
	var sum usage
	for _, pid := range r.pids {
		u, err := usedBy(pid)
		if err != nil {
			return usage{}, err
		}
		sum.cpu += u.cpu
		sum.peak += u.peak
	}
	return sum, nil
}

// clockTick is the unit of times in /proc/PID/stat, USER_HZ: 100 a second on
// every architecture that Go supports (proc_pid_stat(5)).
const clockTick = 10 * time.Millisecond

func usedBy(pid int) (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	// utime and stime are fields 14 and 15; the name, field 2, may hold blanks.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return usage{}, fmt.Errorf("/proc/%d/stat: %d fields", pid, len(fields))
	}
	var u usage
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return usage{}, err
		}
		u.cpu += time.Duration(ticks) * clockTick
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return usage{}, err
	}
	lines := bufio.NewScanner(bytes.NewReader(status))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil {
				return usage{}, err
			}
			u.peak = kib << 10
		}
	}
	return u, lines.Err()
}

type requests struct {
	verb  string
	count int
}

// requestsByVerb counts what the hooks' and the runner's clients asked of the API
// server since a time.
func requestsByVerb(c *harness.Cluster, since time.Time) ([]requests, error) {
	count, err := c.Requests(since, time.Now())
	if err != nil {
		return nil, err
	}
	var list []requests
	for verb, n := range count {
		list = append(list, requests{verb, n})
	}
	slices.SortFunc(list, func(a, b requests) int { return cmp.Compare(a.verb, b.verb) })
	return list, nil
}
