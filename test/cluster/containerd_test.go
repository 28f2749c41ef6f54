package cluster

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMachineFoldersAreTheEnvironmentsAndWhatTheyNeed(t *testing.T) {
	root := t.TempDir()
	at := func(path string) string { return filepath.Join(root, path) }
	for _, dir := range []string{"usr/bin", "lib", "opt/python/bin", "src/checkout/.venv", "envs/plain"} {
		if err := os.MkdirAll(at(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	config := "home = " + at("opt/python/bin") + "\nversion = 3.11\n"
	if err := errors.Join(os.Symlink("usr/bin", at("bin")), os.WriteFile(at("src/checkout/.venv/pyvenv.cfg"), []byte(config), 0o600)); err != nil {
		t.Fatal(err)
	}
	got, err := machineFolders(root, at("src/checkout"), []string{"python=" + at("src/checkout/.venv"), "plain=" + at("envs/plain")})
	if err != nil {
		t.Fatal(err)
	}
	// bin is a link, which the image has; .venv lies in the checkout.
	want := []string{at("envs/plain"), at("lib"), at("opt/python"), at("src/checkout"), at("usr")}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestAVirtualEnvironmentWithoutItsInterpreterIsRefused(t *testing.T) {
	env := t.TempDir()
	for content, problem := range map[string]string{"version = 3\n": "no home", "home = /no/such/python\n": "no such file"} {
		if err := os.WriteFile(filepath.Join(env, "pyvenv.cfg"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := machineFolders("/", env, []string{"python=" + env}); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: %v, want %q", content, err, problem)
		}
	}
}

func TestFoldersAreAddedToARuntimeSpecificationReadOnly(t *testing.T) {
	const stock = `{"ociVersion":"1.0.2","process":{"cwd":"/"},"mounts":[{"destination":"/proc","type":"proc","source":"proc"}]}`
	data, err := withFolders([]byte(stock), []string{"/usr"})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		OCIVersion string
		Mounts     []struct {
			Destination, Source, Type string
			Options                   []string
		}
	}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.OCIVersion != "1.0.2" || len(got.Mounts) != 2 || got.Mounts[0].Destination != "/proc" {
		t.Errorf("what was there has changed: %+v", got)
	}
	if m := got.Mounts[1]; m.Destination != "/usr" || m.Source != "/usr" || m.Type != "bind" || !slices.Contains(m.Options, "ro") {
		t.Errorf("the mount is %+v", m)
	}
	for _, bad := range []string{"{}", "nothing"} {
		if _, err := withFolders([]byte(bad), nil); err == nil {
			t.Errorf("%q was taken for a runtime specification", bad)
		}
	}
}

// Two clusters share neither files nor the network of their pods: everything of
// theirs is in the state folder or has the cluster's id in its name.
func TestTheNodesConfigurationNamesOnlyItsOwnPlaces(t *testing.T) {
	one, other := Info{Dir: "/state/one", ID: "id1"}, Info{Dir: "/state/other", ID: "id2"}
	for what, render := range map[string]func(Info) string{
		"containerd": func(i Info) string { return containerdConfig(i, "overlayfs") },
		"CoreDNS":    corefile,
		"kubelet": func(i Info) string {
			data, err := json.Marshal(kubeletConfig(i))
			if err != nil {
				t.Fatal(err)
			}
			return string(data)
		},
	} {
		a, b := render(one), render(other)
		if moved := strings.NewReplacer("/state/one", "/state/other", "id1", "id2").Replace(a); moved != b {
			t.Errorf("%s: the configurations of two clusters differ in more than the state folder and id:\n%s\n%s", what, a, b)
		}
		if a == b {
			t.Errorf("%s: two clusters have the same configuration", what)
		}
	}
}

func TestKubeletKeepsTheStockDelayOfConfigMaps(t *testing.T) {
	config := kubeletConfig(Info{Dir: "/state", ID: "id"})
	for _, key := range []string{"syncFrequency", "configMapAndSecretChangeDetectionStrategy"} {
		if v, set := config[key]; set {
			t.Errorf("%s is %v, not what kubelets have", key, v)
		}
	}
	if root := config["cgroupRoot"]; root != "/rtj-id" {
		t.Errorf("pods are below cgroup %v, which nobody removes", root)
	}
}
