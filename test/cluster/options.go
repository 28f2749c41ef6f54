package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rtj.dev/rtj/test/cluster/internal/slot"
)

// Options say what a cluster consists of. The zero value is a control plane
// with Kueue, JobSet and S3 and without nodes.
type Options struct {
	// Dir is the state folder. Empty means a new temporary one.
	Dir string `json:"-"`
	// Persistent clusters outlive the process that started them. Others end
	// with it, however it ends.
	Persistent bool `json:"persistent"`
	// Root is the checkout; empty means the one around the working directory.
	Root string `json:"root"`
	// Progress receives one line for each step. Nil discards them.
	Progress io.Writer `json:"-"`

	// FakeNodes is how many KWOK nodes there are: pods on them are Ready at
	// once, run nothing, and complete only on request (see nodes.go).
	FakeNodes int `json:"fakeNodes"`
	// ProcessNodes is how many nodes run pods as processes of this machine.
	ProcessNodes int `json:"processNodes"`
	// KubeletNode adds a node with a real kubelet and containerd, which needs
	// root and Debian's packages (see [ProbeKubeletNode]).
	KubeletNode bool `json:"kubeletNode,omitempty"`
	// NodeImages are the environments of process and kubelet nodes, each
	// NAME=DIR. Default: python=.venv of the checkout, if that is there.
	NodeImages []string `json:"nodeImages,omitempty"`
	// NodeArgs are further arguments of the process nodes.
	NodeArgs []string `json:"nodeArgs,omitempty"`

	// Operator starts `rtj run` as component "operator".
	Operator bool `json:"operator"`
	// OperatorArgs are further arguments of `rtj run`.
	OperatorArgs []string `json:"operatorArgs,omitempty"`

	// KueueFrameworks are Kueue's integrations. Default: batch/job and JobSet.
	KueueFrameworks []string `json:"kueueFrameworks"`
	// KueueFeatureGates are set beside VisibilityOnDemand=false.
	KueueFeatureGates map[string]bool `json:"kueueFeatureGates,omitempty"`
	// KueueConfig is laid over Kueue's configuration: objects are merged,
	// everything else is replaced. For example {"waitForPodsReady": {...}}.
	KueueConfig map[string]any `json:"kueueConfig,omitempty"`
	// JobSetFeatureGates are JobSet's, for example ElasticJobSet.
	JobSetFeatureGates map[string]bool `json:"jobSetFeatureGates,omitempty"`
	// JobSetPodWebhook installs JobSet's webhook on pods, which only serves
	// exclusive placement.
	JobSetPodWebhook bool `json:"jobSetPodWebhook,omitempty"`

	// NodeMonitorGracePeriod is how long after its last heartbeat a node is
	// called lost. Default: 50 s, as in Kubernetes.
	NodeMonitorGracePeriod time.Duration `json:"nodeMonitorGracePeriod"`
	// PodEvictionDelay is how long pods stay on a lost node before they are
	// deleted. Default: 5 min, as in Kubernetes.
	PodEvictionDelay time.Duration `json:"podEvictionDelay"`
}

// Kueue's names for the integrations that a cluster can switch on.
const (
	FrameworkJob    = "batch/job"
	FrameworkJobSet = "jobset.x-k8s.io/jobset"
	FrameworkPod    = "pod"
)

// externalFramework is how Kueue knows RTJ.
const externalFramework = "ResumableTrainingJob.v1beta1.training.rtj.dev"

// Heartbeats come every 10 s, so anything close to that loses healthy nodes.
const minNodeMonitorGrace = 15 * time.Second

func (o *Options) complete() error {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Root == "" {
		root, err := FindRoot()
		if err != nil {
			return err
		}
		o.Root = root
	}
	if o.KueueFrameworks == nil {
		o.KueueFrameworks = []string{FrameworkJob, FrameworkJobSet}
	}
	if venv := filepath.Join(o.Root, ".venv"); (o.ProcessNodes > 0 || o.KubeletNode) && o.NodeImages == nil {
		if _, err := os.Stat(filepath.Join(venv, "bin", "python")); err == nil {
			o.NodeImages = []string{"python=" + venv}
		}
	}
	if o.NodeMonitorGracePeriod == 0 {
		o.NodeMonitorGracePeriod = 50 * time.Second
	}
	if o.PodEvictionDelay == 0 {
		o.PodEvictionDelay = 5 * time.Minute
	}
	return o.validate()
}

func (o *Options) validate() error {
	var errs []error
	if o.FakeNodes < 0 || o.FakeNodes > 1000 {
		errs = append(errs, fmt.Errorf("%d fake nodes: must be 0 to 1000", o.FakeNodes))
	}
	if o.ProcessNodes < 0 || o.ProcessNodes > slot.NodesEach {
		errs = append(errs, fmt.Errorf("%d process nodes: must be 0 to %d", o.ProcessNodes, slot.NodesEach))
	}
	known := []string{FrameworkJob, FrameworkJobSet, FrameworkPod}
	for _, f := range o.KueueFrameworks {
		if !slices.Contains(known, f) {
			errs = append(errs, fmt.Errorf("integration %q of Kueue: must be one of %s", f, strings.Join(known, ", ")))
		}
	}
	if o.NodeMonitorGracePeriod < minNodeMonitorGrace {
		errs = append(errs, fmt.Errorf("node monitor grace period %s: must be at least %s, since heartbeats come every 10 s",
			o.NodeMonitorGracePeriod, minNodeMonitorGrace))
	}
	if o.PodEvictionDelay < 0 {
		errs = append(errs, fmt.Errorf("pod eviction delay %s: must not be negative", o.PodEvictionDelay))
	}
	return errors.Join(errs...)
}

// extends says whether a cluster made with old can be brought to o while it
// runs: nodes and the operator can be added, nothing else can change.
func (o *Options) extends(old Options) error {
	var differ []string
	note := func(name string, same bool) {
		if !same {
			differ = append(differ, name)
		}
	}
	note("Kueue integrations", slices.Equal(o.KueueFrameworks, old.KueueFrameworks))
	note("Kueue feature gates", maps.Equal(o.KueueFeatureGates, old.KueueFeatureGates))
	note("Kueue configuration", sameJSON(o.KueueConfig, old.KueueConfig))
	note("JobSet feature gates", maps.Equal(o.JobSetFeatureGates, old.JobSetFeatureGates))
	note("JobSet pod webhook", o.JobSetPodWebhook == old.JobSetPodWebhook)
	note("node monitor grace period", o.NodeMonitorGracePeriod == old.NodeMonitorGracePeriod)
	note("pod eviction delay", o.PodEvictionDelay == old.PodEvictionDelay)
	note("fewer fake nodes", o.FakeNodes >= old.FakeNodes)
	note("fewer process nodes", o.ProcessNodes >= old.ProcessNodes)
	note("no kubelet node", o.KubeletNode || !old.KubeletNode)
	if len(differ) == 0 {
		return nil
	}
	return fmt.Errorf("the cluster exists with other options (%s), which cannot change while it exists: take it down first",
		strings.Join(differ, ", "))
}

// sameJSON compares values one of which was read back from JSON, where every
// number is a float64 and every list a []any.
func sameJSON(a, b map[string]any) bool {
	if len(a) == 0 && len(b) == 0 {
		return true
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// FindRoot is the checkout around the working directory: the folder whose
// go.mod declares the product's module. RTJ_ROOT overrides the search.
func FindRoot() (string, error) {
	if root := os.Getenv("RTJ_ROOT"); root != "" {
		return filepath.Abs(root)
	}
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && slices.Contains(strings.Fields(firstLine(data)), "rtj.dev/rtj") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside a checkout of rtj.dev/rtj (set RTJ_ROOT to one)", start)
		}
	}
}

func firstLine(data []byte) string {
	line, _, _ := strings.Cut(string(data), "\n")
	return line
}

// CacheDir is where programs and the registry of clusters are kept.
func CacheDir() (string, error) {
	if dir := os.Getenv("RTJ_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w (set RTJ_CACHE to a folder)", err)
	}
	return filepath.Join(base, "rtj"), nil
}
