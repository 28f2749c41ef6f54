package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"rtj.dev/rtj/test/cluster/internal/build"
	"rtj.dev/rtj/test/cluster/internal/proc"
	"rtj.dev/rtj/test/cluster/internal/slot"
)

func TestNothingIsCreatedInAFolderOfSomebodyElse(t *testing.T) {
	t.Setenv("RTJ_CACHE", t.TempDir())
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := create(t.Context(), Options{Dir: dir}, build.Result{}); err == nil || !strings.Contains(err.Error(), "thesis.tex") {
		t.Errorf("want an error that names the file, got %v", err)
	}
	if err := Down(t.Context(), dir, false); !errors.Is(err, ErrNoCluster) {
		t.Errorf("down: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "thesis.tex")); err != nil {
		t.Error("the file is gone")
	}
}

func TestClustersCreatedAtOnceShareNothing(t *testing.T) {
	t.Setenv("RTJ_CACHE", t.TempDir())
	parent := t.TempDir()
	infos := make(chan Info, 12)
	var wait sync.WaitGroup
	for i := range cap(infos) {
		wait.Go(func() {
			info, err := create(t.Context(), Options{Dir: filepath.Join(parent, strconv.Itoa(i))}, build.Result{})
			if err != nil {
				t.Error(err)
			}
			infos <- info
		})
	}
	wait.Wait()
	close(infos)
	owner := map[string]string{}
	for info := range infos {
		for _, thing := range []string{info.APIServer, info.S3.Endpoint, info.PodRange} {
			if other, taken := owner[thing]; taken {
				t.Errorf("%s and %s both have %s", other, info.Dir, thing)
			}
			owner[thing] = info.Dir
		}
	}
}

func TestDownGivesEverythingBack(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("RTJ_CACHE", cache)
	dir := filepath.Join(t.TempDir(), "cluster")
	info := newInfo(t, dir)
	p, err := info.table().Start(proc.Spec{Name: Kwok, Path: "/bin/sh", Args: []string{"-c", "exec sleep 600"}})
	if err != nil {
		t.Fatal(err)
	}
	// What an overlay leaves behind: a folder that its owner may not read.
	if err := os.MkdirAll(filepath.Join(dir, "work", "work"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "work", "work"), 0); err != nil {
		t.Fatal(err)
	}
	if err := Down(t.Context(), dir, false); err != nil {
		t.Fatal(err)
	}
	if p.Alive() {
		t.Error("a process is left")
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the state folder is left: %v", err)
	}
	claims, err := registry(cache).Claims(t.Context())
	if err != nil || len(claims) != 0 {
		t.Errorf("claims left: %v, %v", claims, err)
	}
	if locks, _ := os.ReadDir(filepath.Join(cache, "locks")); len(locks) != 0 {
		t.Errorf("locks left: %v", locks)
	}
}

func TestDownKeepsLogsAndNothingElse(t *testing.T) {
	t.Setenv("RTJ_CACHE", t.TempDir())
	dir := filepath.Join(t.TempDir(), "cluster")
	info := newInfo(t, dir)
	for _, path := range []string{"logs/etcd.log", "audit/audit.log", "secrets/key", "pki/ca.key"} {
		if err := os.MkdirAll(filepath.Dir(info.path(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(info.path(path), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := Down(t.Context(), dir, true); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 || entries[0].Name() != "audit" || entries[1].Name() != "logs" {
		t.Errorf("left: %v, %v", entries, err)
	}
	newInfo(t, dir) // and a new cluster can be made there
}

func TestSweepTakesDownWhatLostItsOwner(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("RTJ_CACHE", cache)
	parent := t.TempDir()
	self, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	dead := self
	dead.StartTicks-- // had this pid before
	for name, owner := range map[string]*proc.Identity{"orphan": &dead, "owned": &self, "persistent": nil} {
		info := newInfo(t, filepath.Join(parent, name))
		info.Owner = owner
		if err := info.write(); err != nil {
			t.Fatal(err)
		}
	}
	if err := sweep(t.Context(), cache); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(parent)
	if err != nil || len(left) != 2 || left[0].Name() != "owned" || left[1].Name() != "persistent" {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestAClaimLivesAsLongAsItsCluster(t *testing.T) {
	t.Setenv("RTJ_CACHE", t.TempDir())
	dir := filepath.Join(t.TempDir(), "cluster")
	info := newInfo(t, dir)
	claim := slot.Claim{Slot: slot.Slot{Index: info.Slot}, Dir: dir, ID: info.ID}
	if !claimLive(claim) {
		t.Error("the claim of a cluster that exists is not live")
	}
	earlier := claim
	earlier.ID = "another"
	if claimLive(earlier) {
		t.Error("the claim of an earlier cluster in the same folder is live")
	}
	if err := os.WriteFile(filepath.Join(dir, stateFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if !claimLive(claim) {
		t.Error("a cluster.json that cannot be read frees the ports of what may still run")
	}
}

func TestInfoNamesFilesAndHoldsNoSecret(t *testing.T) {
	t.Setenv("RTJ_CACHE", t.TempDir())
	info := newInfo(t, filepath.Join(t.TempDir(), "cluster"))
	if err := issueIdentities(info); err != nil {
		t.Fatal(err)
	}
	if err := issueS3Keys(info); err != nil {
		t.Fatal(err)
	}
	c := &Cluster{Info: info}
	access, secret, err := c.S3Keys()
	if err != nil {
		t.Fatal(err)
	}
	if len(access) != 20 || len(secret) != 40 || access == secret {
		t.Errorf("keys of length %d and %d", len(access), len(secret))
	}
	if err := issueS3Keys(info); err != nil {
		t.Fatal(err)
	}
	if again, _, _ := c.S3Keys(); again != access {
		t.Error("the keys changed while the cluster exists")
	}
	data, err := os.ReadFile(info.path(stateFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{access, secret} {
		if strings.Contains(string(data), s) {
			t.Error("cluster.json holds a key")
		}
	}
	for _, s := range []component{c.s3(), c.apiServer(), c.etcd()} {
		spec, err := s.spec()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range spec.Args {
			if strings.Contains(a, access) || strings.Contains(a, secret) {
				t.Errorf("an argument of %s holds a key", spec.Name)
			}
		}
	}
	var back Info
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{back.Kubeconfig, back.RTJKubeconfig, back.ClusterCA, back.S3.AccessKeyFile, back.S3.SecretKeyFile} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("cluster.json names %s: %v", path, err)
		}
	}
	ports := map[int]string{}
	for name, p := range back.Ports {
		if other, taken := ports[p]; taken {
			t.Errorf("%s and %s have port %d", name, other, p)
		}
		ports[p] = name
	}
}

func TestMountPointsAreFoundWithOddNames(t *testing.T) {
	for line, want := range map[string]string{
		"36 35 98:0 / /mnt/a rw,noatime master:1 - ext3 /dev/root rw":     "/mnt/a",
		`36 35 0:5 / /mnt/a\040b\134c rw - overlay overlay rw,lowerdir=x`: `/mnt/a b\c`,
		"36 35": "",
	} {
		if got := mountPoint(line); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}

// newInfo is a cluster none of whose processes run.
func newInfo(t *testing.T, dir string) Info {
	t.Helper()
	info, err := create(t.Context(), Options{Dir: dir, Persistent: true}, build.Result{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Down(context.Background(), dir, false); err != nil && !errors.Is(err, ErrNoCluster) &&
			!strings.Contains(err.Error(), stateFile) {
			t.Error(err)
		}
	})
	return info
}
