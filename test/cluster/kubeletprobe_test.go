package cluster

import (
	"os"
	"strings"
	"testing"

	"rtj.dev/rtj/test/cluster/internal/cgroup"
)

func TestProbeSaysWhatIsMissingAndHowToGetIt(t *testing.T) {
	if f := probeRoot(0); f.Problem != "" {
		t.Errorf("root: %+v", f)
	}
	if f := probeRoot(1000); f.Seen != "user 1000" || !strings.Contains(f.Problem, "only root") {
		t.Errorf("user 1000: %+v", f)
	}
	if f := probePrograms(func(string) bool { return true }); f.Problem != "" {
		t.Errorf("all is there: %+v", f)
	}
	f := probePrograms(func(program string) bool { return program != "runc" && program != "/usr/lib/cni/bridge" })
	if f.Seen != "not found: runc, /usr/lib/cni/bridge" || !strings.Contains(f.Problem, "apt-get install -y containerd runc containernetworking-plugins") {
		t.Errorf("runc and a plugin are missing: %+v", f)
	}
}

func TestProbeOfCgroupsNamesMissingControllers(t *testing.T) {
	v1 := func(controllers ...string) []cgroup.Hierarchy {
		var all []cgroup.Hierarchy
		for _, c := range controllers {
			all = append(all, cgroup.Hierarchy{Path: "/sys/fs/cgroup/" + c, Options: []string{"rw", c}})
		}
		return all
	}
	if v, err := cgroup.Version(v1("cpu", "cpuset", "memory", "pids")); v != "version 1" || err != nil {
		t.Errorf("version 1: %q, %v", v, err)
	}
	if _, err := cgroup.Version(v1("cpu", "memory")); err == nil || !strings.Contains(err.Error(), "cpuset, pids") {
		t.Errorf("version 1 without two controllers: %v", err)
	}
	dir := t.TempDir()
	unified := []cgroup.Hierarchy{{Path: dir, Unified: true}}
	controllers := func(text string) {
		if err := os.WriteFile(dir+"/cgroup.controllers", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	controllers("cpuset cpu io memory pids\n")
	if v, err := cgroup.Version(unified); v != "version 2" || err != nil {
		t.Errorf("version 2: %q, %v", v, err)
	}
	controllers("cpu memory\n")
	if _, err := cgroup.Version(unified); err == nil || !strings.Contains(err.Error(), "cpuset, pids") {
		t.Errorf("version 2 without two controllers: %v", err)
	}
}

func TestProblemsAreJoined(t *testing.T) {
	if err := problems([]Finding{{What: "root", Seen: "yes"}}); err != nil {
		t.Errorf("no problem: %v", err)
	}
	err := problems([]Finding{{"root", "user 1", "sudo"}, {What: "fine"}, {"runtime", "not found: runc", "install it"}})
	if err == nil || err.Error() != "root: user 1: sudo\nruntime: not found: runc: install it" {
		t.Errorf("two problems: %v", err)
	}
}
