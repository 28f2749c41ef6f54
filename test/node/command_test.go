//go:build !e2e

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const kubeconfig = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`

// parse reads flags beside those that are always needed.
func parse(t *testing.T, args ...string) (options, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	var o options
	err := command(&o).ParseFlags(append([]string{"--kubeconfig=" + file, "--name=n", "--dir=" + t.TempDir(), "--pod-cidr=127.9.1.0/24"}, args...))
	return o, err
}

func TestDefaults(t *testing.T) {
	o, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := o.config()
	if err != nil {
		t.Fatal(err)
	}
	if gpus := cfg.Allocatable["nvidia.com/gpu"]; gpus.Value() != 8 {
		t.Errorf("%s GPUs", gpus.String())
	}
	if cpu, memory := cfg.Allocatable.Cpu(), cfg.Allocatable.Memory(); cpu.Value() < 1 || memory.Value() < 1<<20 {
		t.Errorf("CPU %s, memory %s", cpu, memory)
	}
	if cfg.APIServer.String() != "https://127.0.0.1:6443" || cfg.ConfigRefresh.String() != "1m0s" {
		t.Errorf("API server %s, refresh %s", cfg.APIServer, cfg.ConfigRefresh)
	}
}

func TestFlagsOfANode(t *testing.T) {
	image := t.TempDir()
	o, err := parse(t, "--images=python="+image, "--gpus=2", "--cpu=500m", "--memory=1Gi", "--labels=a=b,c.d/e=f",
		"--taints=k=v:NoSchedule,only:NoExecute", "--api-server=https://localhost:1")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := o.config()
	if err != nil {
		t.Fatal(err)
	}
	if cpu, memory := cfg.Allocatable.Cpu(), cfg.Allocatable.Memory(); cpu.MilliValue() != 500 || memory.Value() != 1<<30 {
		t.Errorf("CPU %s, memory %s", cpu, memory)
	}
	if cfg.Images["python"] != image || cfg.Labels["c.d/e"] != "f" || cfg.APIServer.Host != "localhost:1" {
		t.Errorf("%v, %v, %s", cfg.Images, cfg.Labels, cfg.APIServer)
	}
	want := []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}, {Key: "only", Effect: corev1.TaintEffectNoExecute}}
	if len(cfg.Taints) != 2 || cfg.Taints[0] != want[0] || cfg.Taints[1] != want[1] {
		t.Errorf("%v", cfg.Taints)
	}
}

func TestBadFlagsAreNamed(t *testing.T) {
	for flag, want := range map[string]string{
		"--name=Upper":                 `--name "Upper"`,
		"--pod-cidr=10.0.0.0/24":       "--pod-cidr: 10.0.0.0/24 is not a range of loopback addresses",
		"--pod-cidr=127.0.0.0/8":       "between /16 and /29",
		"--images=python=/no/such/dir": "--images: image python",
		"--taints=k=v":                 `--taints: "k=v": want`,
		"--cpu=many":                   `--cpu "many"`,
		"--config-refresh=1ms":         "--config-refresh 1ms: must be at least one second",
		"--tls-cert-file=x":            "belong together",
		"--api-server=nonsense":        `--api-server "nonsense"`,
		"--kubeconfig=/no/such/file":   "--kubeconfig: ",
	} {
		o, err := parse(t, flag)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.config(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", flag, err, want)
		}
	}
}
