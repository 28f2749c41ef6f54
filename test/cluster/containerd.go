package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"rtj.dev/rtj/test/cluster/internal/proc"
)

const (
	// cniPluginDir is where Debian puts the standard CNI plugins.
	cniPluginDir = "/usr/lib/cni"
	// podNetwork is that of the kubelet node's pods. It is the same in every
	// cluster: each has a network namespace of its own.
	podNetwork = "10.244.0.0/24"
	// registryURL is the gateway's, in the node's network namespace.
	registryURL = "http://127.0.0.1:5000"
)

func (c *Cluster) containerd() component {
	return component{
		name: Containerd, grace: defaultGrace,
		spec: func() (proc.Spec, error) {
			program, err := exec.LookPath(Containerd)
			if err != nil {
				return proc.Spec{}, err
			}
			return c.nodeProgram(Containerd, program, "--config="+c.nodeConfig("containerd.toml"))
		},
		ready: func(ctx context.Context) error { return c.nodeListens(ctx, containerdSocket) },
	}
}

// prepareContainerd writes its configuration, that of CNI, and what the node's
// containers see of the machine.
func (c *Cluster) prepareContainerd(ctx context.Context) error {
	plugins := c.nodeConfig("cni-plugins")
	for _, dir := range []string{plugins, c.nodeConfig("cni"), c.nodeConfig("registry", "_default")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for from, to := range map[string]string{
		filepath.Join(cniPluginDir, "bridge"): "bridge", filepath.Join(cniPluginDir, "host-local"): "host-local",
		filepath.Join(cniPluginDir, "loopback"): "loopback", c.kubeletNodePath(): machinePortsPlugin,
	} {
		link := filepath.Join(plugins, to)
		_ = os.Remove(link)
		if err := os.Symlink(from, link); err != nil {
			return err
		}
	}
	folders, err := machineFolders("/", c.Options.Root, c.Options.NodeImages)
	if err != nil {
		return err
	}
	stock, err := exec.CommandContext(ctx, "ctr", "oci", "spec").Output()
	if err != nil {
		return fmt.Errorf("ctr oci spec: %w", err)
	}
	base, err := withFolders(stock, folders)
	if err != nil {
		return err
	}
	snapshotter := "overlayfs"
	if err := overlayWritable(c.Dir); err != nil {
		snapshotter = "native" // copies images, which are small here
	}
	for path, content := range map[string][]byte{
		c.nodeConfig("base-spec.json"):                     base,
		c.nodeConfig("containerd.toml"):                    []byte(containerdConfig(c.Info, snapshotter)),
		c.nodeConfig("cni", "10-pods.conflist"):            cniConfig(),
		c.nodeConfig("registry", "_default", "hosts.toml"): []byte(registryConfig),
	} {
		if err := writeFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// registryConfig sends every pull to the gateway, so that an image that is not
// there is missed at once.
const registryConfig = "server = \"" + registryURL + "\"\n\n[host.\"" + registryURL + "\"]\n  capabilities = [\"pull\", \"resolve\"]\n"

// containerdConfig: containerd 1.6 and later read version 2 of its format.
func containerdConfig(i Info, snapshotter string) string {
	return fmt.Sprintf(`version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]

[grpc]
  address = %[1]q

[plugins."io.containerd.grpc.v1.cri"]
  # The machine may not let anybody be spared by the OOM killer.
  restrict_oom_score_adj = true
  sandbox_image = "rtj.local/pause:1"
  stream_server_address = "127.0.0.1"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %[2]q
    conf_dir = %[3]q

  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = %[4]q

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = %[5]q

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      base_runtime_spec = %[6]q

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
`, containerdSocket, i.nodeConfig("cni-plugins"), i.nodeConfig("cni"), i.nodeConfig("registry"), snapshotter, i.nodeConfig("base-spec.json"))
}

// machinePortsPlugin is the name of our CNI plugin.
const machinePortsPlugin = "machine-ports"

// cniConfig gives each pod an address on a bridge in the node's network
// namespace, and then the machine's ports.
func cniConfig() []byte {
	data, _ := json.MarshalIndent(map[string]any{ // cannot fail
		"cniVersion": "0.4.0", "name": "pods",
		"plugins": []any{
			map[string]any{
				"type": "bridge", "bridge": "pods0", "isGateway": true, "hairpinMode": true,
				"ipam": map[string]any{
					"type": "host-local", "dataDir": "/run/cni",
					"ranges": []any{[]any{map[string]any{"subnet": podNetwork}}},
					"routes": []any{map[string]any{"dst": "0.0.0.0/0"}},
				},
			},
			map[string]any{"type": machinePortsPlugin},
		},
	}, "", "  ")
	return append(data, '\n')
}

// withFolders adds folders of the machine to an OCI runtime specification, at
// their own paths and read-only.
func withFolders(spec []byte, folders []string) ([]byte, error) {
	var parsed map[string]any
	if err := json.Unmarshal(spec, &parsed); err != nil {
		return nil, fmt.Errorf("runtime specification: %w", err)
	}
	mounts, _ := parsed["mounts"].([]any)
	if len(mounts) == 0 {
		return nil, fmt.Errorf("a runtime specification without mounts")
	}
	for _, folder := range folders {
		mounts = append(mounts, map[string]any{
			"destination": folder, "source": folder, "type": "bind", "options": []any{"bind", "ro", "nosuid"},
		})
	}
	parsed["mounts"] = mounts
	return json.MarshalIndent(parsed, "", "  ")
}

// machineFolders are what every container of the kubelet node sees of the
// machine: its programs and libraries, its root certificates, the checkout, the
// environments that are images, and the Python that a virtual environment leads
// to. Sorted, and none of them inside of another.
func machineFolders(root, checkout string, images []string) ([]string, error) {
	wanted := []string{checkout}
	for _, name := range []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc/alternatives", "etc/ssl"} {
		path := filepath.Join(root, name)
		// A link into /usr is one in the image too.
		if info, err := os.Lstat(path); err == nil && info.IsDir() {
			wanted = append(wanted, path)
		}
	}
	for _, image := range images {
		_, dir, _ := strings.Cut(image, "=")
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("image %s: the folder must be absolute, as pods see it at its path", image)
		}
		wanted = append(wanted, dir)
		home, err := pythonHome(dir)
		if err != nil {
			return nil, err
		}
		if home != "" {
			wanted = append(wanted, home)
		}
	}
	slices.Sort(wanted)
	var folders []string
	for _, path := range wanted {
		path = filepath.Clean(path)
		inside := func(outer string) bool { return path == outer || strings.HasPrefix(path, outer+"/") }
		if !slices.ContainsFunc(folders, inside) {
			folders = append(folders, path)
		}
	}
	return folders, nil
}

// pythonHome is where the interpreter of a virtual environment is installed;
// empty if the folder is no virtual environment. pyvenv.cfg names the folder of
// the interpreter (PEP 405).
func pythonHome(env string) (string, error) {
	data, err := os.ReadFile(filepath.Join(env, "pyvenv.cfg"))
	if os.IsNotExist(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if key, value, _ := strings.Cut(line, "="); strings.TrimSpace(key) == "home" {
			bin, err := filepath.EvalSymlinks(strings.TrimSpace(value))
			return filepath.Dir(bin), err
		}
	}
	return "", fmt.Errorf("%s: no home", filepath.Join(env, "pyvenv.cfg"))
}
