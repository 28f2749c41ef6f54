package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
)

const hybrid = `sysfs /sys sysfs rw,relatime 0 0
tmpfs /sys/fs/cgroup tmpfs rw,relatime,mode=755 0 0
cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
cgroup /mnt/elsewhere cgroup rw,memory 0 0
`

func TestParseKnowsBothVersionsAndOnlyTheUsualPlace(t *testing.T) {
	want := []Hierarchy{
		{Path: "/sys/fs/cgroup/cpuset", Options: []string{"rw", "relatime", "cpuset"}},
		{Path: "/sys/fs/cgroup/cpu,cpuacct", Options: []string{"rw", "cpu", "cpuacct"}},
		{Path: "/sys/fs/cgroup/unified", Unified: true},
	}
	if got := parse(hybrid); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	want = []Hierarchy{{Path: "/sys/fs/cgroup", Unified: true}}
	if got := parse("cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestRemoveEndsWhatIsInIt(t *testing.T) {
	name := "rtj-cgroup-test-" + strconv.Itoa(os.Getpid())
	if err := Create(name); err != nil {
		t.Skipf("cgroups cannot be made here: %v", err)
	}
	t.Cleanup(func() { _ = Remove(name) })
	if err := Create(name); err != nil {
		t.Fatalf("again: %v", err)
	}
	all, err := Hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	// Each hierarchy has a process of its own, one of them below.
	var children []*exec.Cmd
	for i, h := range all {
		dir := filepath.Join(h.Path, name)
		if i == 0 {
			dir = filepath.Join(dir, "below")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if data, err := os.ReadFile(filepath.Join(h.Path, name, "cpuset.cpus")); err == nil {
				mems, _ := os.ReadFile(filepath.Join(h.Path, name, "cpuset.mems"))
				_ = write(filepath.Join(dir, "cpuset.cpus"), string(data))
				_ = write(filepath.Join(dir, "cpuset.mems"), string(mems))
			}
		}
		child := exec.Command("sleep", "600")
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, child)
		if err := write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(child.Process.Pid)); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
	// Dead children of ours are no processes of a cgroup only once they are
	// waited for.
	ended := make(chan error)
	for _, child := range children {
		go func() { ended <- child.Wait() }()
	}
	if err := Remove(name); err != nil {
		t.Error(err)
	}
	for range children {
		if err := <-ended; err == nil {
			t.Error("a process ended by itself")
		}
	}
	for _, h := range all {
		if _, err := os.Stat(filepath.Join(h.Path, name)); err == nil {
			t.Errorf("%s is left", filepath.Join(h.Path, name))
		}
	}
	if err := Remove(name); err != nil {
		t.Errorf("what is not there: %v", err)
	}
}
