package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParseStatSkipsTheName(t *testing.T) {
	// Fields 3 to 24 of proc_pid_stat(5), the 22nd being the start time.
	const rest = "S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 8842 1000 200"
	for _, name := range []string{"etcd", "a b", ") R 1 (", "((("} {
		got, err := parseStat(fmt.Appendf(nil, "42 (%s) %s\n", name, rest))
		if err != nil {
			t.Fatalf("name %q: %v", name, err)
		}
		if got.state != 'S' || got.startTicks != 8842 {
			t.Errorf("name %q: state %c, start %d; want S, 8842", name, got.state, got.startTicks)
		}
	}
}

func TestParseStatRefusesWhatIsNotOne(t *testing.T) {
	for _, text := range []string{"", "42 etcd S 1", "42 (etcd) S 1 2 3", "42 (etcd) S" + strings.Repeat(" x", 20)} {
		if got, err := parseStat([]byte(text)); err == nil {
			t.Errorf("%q: got %+v, want an error", text, got)
		}
	}
}

func TestSelfIsAlive(t *testing.T) {
	id, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	if !id.Alive() {
		t.Error("this process is not alive")
	}
	earlier := id
	earlier.StartTicks--
	if earlier.Alive() {
		t.Error("a process that had this pid before is alive")
	}
	otherBoot := id
	otherBoot.BootID = "00000000-0000-0000-0000-000000000000"
	if otherBoot.Alive() {
		t.Error("a process of another boot is alive")
	}
}

func TestStartRecordsAndStopEnds(t *testing.T) {
	table := newTable(t)
	p := start(t, table, "sleeper", "exec sleep 600")
	r, err := table.Get("sleeper")
	if err != nil {
		t.Fatal(err)
	}
	if r.Identity != p.Identity || !r.Alive() {
		t.Fatalf("record %+v of process %+v", r.Identity, p.Identity)
	}
	if _, err := table.Start(Spec{Name: "sleeper", Path: "/bin/sh"}); err == nil {
		t.Error("a component that runs was started again")
	}
	if err := table.Stop("sleeper", time.Minute); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if p.ExitText() != "signal: terminated" {
		t.Errorf("exit: %s; want signal: terminated", p.ExitText())
	}
	if r.Alive() {
		t.Error("still alive after Stop")
	}
	if err := table.Stop("sleeper", 0); err != nil {
		t.Errorf("stopping what has ended: %v", err)
	}
}

func TestStopKillsWhatIgnoresTERM(t *testing.T) {
	table := newTable(t)
	p := start(t, table, "stubborn", "trap '' TERM; echo armed; while :; do sleep 600; done")
	waitForLog(t, table, "stubborn", "armed")
	if err := table.Stop("stubborn", 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if p.ExitText() != "signal: killed" {
		t.Errorf("exit: %s; want signal: killed", p.ExitText())
	}
}

func TestStopSparesAForeignProcessWithTheSamePID(t *testing.T) {
	table := newTable(t)
	p := start(t, table, "foreign", "exec sleep 600")
	r := p.Record
	r.StartTicks-- // the record of an earlier process whose pid was recycled
	if err := table.put(r); err != nil {
		t.Fatal(err)
	}
	for _, grace := range []time.Duration{0, time.Second} {
		if err := table.Stop("foreign", grace); err != nil {
			t.Fatal(err)
		}
	}
	if there, err := r.Signal(syscall.SIGKILL); there || err != nil {
		t.Errorf("signal reached the foreign process: %v, %v", there, err)
	}
	if !p.Alive() {
		t.Error("the foreign process was killed")
	}
}

func TestKillAllFindsUnrecordedDescendants(t *testing.T) {
	table := newTable(t)
	// The child leaves the session and the process group of its parent, whose
	// record is lost as well.
	p := start(t, table, "parent", "setsid sleep 600 & echo $! ; wait")
	waitForLog(t, table, "parent", "\n")
	if err := os.Remove(filepath.Join(table.RunDir, "parent.json")); err != nil {
		t.Fatal(err)
	}
	marked, err := table.Marked()
	if err != nil {
		t.Fatal(err)
	}
	if len(marked) < 2 {
		t.Fatalf("found %d processes, want the shell and its child", len(marked))
	}
	if err := table.KillAll(); err != nil {
		t.Fatal(err)
	}
	for _, id := range append(marked, p.Identity) {
		if id.Alive() {
			t.Errorf("pid %d is still alive", id.PID)
		}
	}
}

func TestEnvironmentIsNotInherited(t *testing.T) {
	t.Setenv("A_SECRET", "hunter2")
	table := newTable(t)
	p := start(t, table, "env", "env; echo end")
	<-p.Done()
	out := table.Tail("env", 100)
	if strings.Contains(out, "hunter2") {
		t.Error("the environment of the caller was passed on")
	}
	if !strings.Contains(out, MarkerEnv+"="+table.Marker) {
		t.Errorf("no marker in the environment:\n%s", out)
	}
}

func TestTailIsBounded(t *testing.T) {
	table := newTable(t)
	p := start(t, table, "talker", "seq 1 100000")
	<-p.Done()
	if got := table.Tail("talker", 2); got != "99999\n100000" {
		t.Errorf("tail: %q", got)
	}
	if got := table.Tail("nobody", 2); got != "" {
		t.Errorf("tail of what never ran: %q", got)
	}
}

func TestTrimLogsKeepsTheNewestHalf(t *testing.T) {
	table := newTable(t)
	if err := os.MkdirAll(table.LogDir, 0o755); err != nil {
		t.Fatal(err)
	}
	small, large := table.LogPath("small"), table.LogPath("large")
	write(t, small, strings.Repeat("s", 100))
	write(t, large, strings.Repeat("a", 60)+strings.Repeat("b", 50))
	if err := table.TrimLogs(100); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		small: strings.Repeat("s", 100), large: "", large + ".1": strings.Repeat("b", 50),
	} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(data) != want {
			t.Errorf("%s holds %q, want %q", filepath.Base(path), data, want)
		}
	}
}

func TestATrimmedLogGoesOn(t *testing.T) {
	table := newTable(t)
	start(t, table, "writer", "while :; do echo line; sleep 0.01; done")
	waitForLog(t, table, "writer", "line\nline")
	if err := table.TrimLogs(1); err != nil {
		t.Fatal(err)
	}
	waitForLog(t, table, "writer", "line\n")
	data, err := os.ReadFile(table.LogPath("writer"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsRune(string(data), 0) {
		t.Error("a hole was left where the log was cut")
	}
}

func newTable(t *testing.T) Table {
	t.Helper()
	dir := t.TempDir()
	table := Table{RunDir: filepath.Join(dir, "run"), LogDir: filepath.Join(dir, "logs"),
		Marker: fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano())}
	t.Cleanup(func() {
		if err := table.KillAll(); err != nil {
			t.Error(err)
		}
	})
	return table
}

func start(t *testing.T, table Table, name, script string) *Process {
	t.Helper()
	p, err := table.Start(Spec{Name: name, Path: "/bin/sh", Args: []string{"-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func waitForLog(t *testing.T, table Table, name, text string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		data, _ := os.ReadFile(table.LogPath(name))
		if strings.Contains(string(data), text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s never wrote %q; its log: %q", name, text, data)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
