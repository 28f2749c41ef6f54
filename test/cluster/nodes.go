package cluster

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"rtj.dev/rtj/test/cluster/internal/proc"
)

// NodeKindLabel is on every node of a cluster, with value "fake", "process" or
// "kubelet", so that a ResourceFlavor can choose.
const NodeKindLabel = "node.rtj.dev/kind"

// TrainingKind is the kind of the nodes that run what pods say: "process" where
// there are process nodes, else "kubelet"; empty where there are neither.
func (o Options) TrainingKind() string {
	switch {
	case o.ProcessNodes > 0:
		return "process"
	case o.KubeletNode:
		return "kubelet"
	}
	return ""
}

// kwokAnnotation marks the nodes that KWOK plays.
const kwokAnnotation = "kwok.x-k8s.io/node"

//go:embed manifests/fake-pods.yaml
var fakePodStages []byte

//go:embed manifests/audit-policy.yaml
var auditPolicy []byte

func (c *Cluster) kwok() component {
	port := c.Ports["kwok"]
	return component{
		name: Kwok, port: port, grace: defaultGrace,
		spec: func() (proc.Spec, error) {
			stages := c.path("config", "kwok-stages.yaml")
			if err := c.writeStages(stages); err != nil {
				return proc.Spec{}, err
			}
			return proc.Spec{
				Name: Kwok, Path: c.Programs.Path("kwok"), Dir: c.Dir,
				Args: []string{"--kubeconfig=" + c.kubeconfig("kwok"), "--config=" + stages,
					"--manage-all-nodes=false", "--manage-nodes-with-annotation-selector=" + kwokAnnotation + "=fake",
					"--node-ip=127.0.0.1", fmt.Sprintf("--node-port=%d", port), "--server-address=" + loopback(port),
					"--tls-cert-file=" + c.pki("loopback.crt"), "--tls-private-key-file=" + c.pki("loopback.key"),
					"--cidr=10.128.0.1/16", "--node-lease-duration-seconds=40"},
				// KWOK reads a configuration in the user's home otherwise.
				Env: []string{"KWOK_WORKDIR=" + c.path("config", "kwok")},
			}, nil
		},
		ready: c.answers(fmt.Sprintf("https://127.0.0.1:%d/healthz", port), ""),
	}
}

func (c *Cluster) writeStages(path string) error {
	var all []byte
	for _, name := range []string{"node-initialize.yaml", "pod-ready.yaml"} {
		data, err := os.ReadFile(filepath.Join(c.Programs.Manifests, "kwok", name))
		if err != nil {
			return err
		}
		all = append(append(all, data...), "\n---\n"...)
	}
	return writeFile(path, append(all, fakePodStages...), 0o644)
}

// FakeNodeName is the name of the i-th fake node.
func FakeNodeName(i int) string { return fmt.Sprintf("fake-%d", i) }

// createFakeNodes makes those of the options that do not exist, and counts them.
func (c *Cluster) createFakeNodes(ctx context.Context) (created int, err error) {
	client, err := kubernetes.NewForConfig(c.RESTConfig)
	if err != nil {
		return 0, err
	}
	for i := range c.Options.FakeNodes {
		err := retryConflict(ctx, func() error {
			_, err := client.CoreV1().Nodes().Create(ctx, fakeNode(FakeNodeName(i)), metav1.CreateOptions{})
			return err
		})
		if err == nil {
			created++
		} else if !apierrors.IsAlreadyExists(err) {
			return created, fmt.Errorf("create node %s: %w", FakeNodeName(i), err)
		}
	}
	return created, nil
}

func fakeNode(name string) *corev1.Node {
	size := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("64"),
		corev1.ResourceMemory: resource.MustParse("512Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
		"nvidia.com/gpu":      resource.MustParse("8"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{kwokAnnotation: "fake"},
			Labels: map[string]string{
				NodeKindLabel: "fake", "kubernetes.io/hostname": name,
				"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
			},
		},
		Status: corev1.NodeStatus{Capacity: size, Allocatable: size},
	}
}

// nodesReady is nil once every node of the options is Ready.
func (c *Cluster) nodesReady(ctx context.Context) error { return c.ready(ctx, c.nodeNames()...) }

func (c *Cluster) ready(ctx context.Context, names ...string) error {
	client, err := kubernetes.NewForConfig(c.RESTConfig)
	if err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	ready := map[string]bool{}
	for _, n := range nodes.Items {
		for _, cond := range n.Status.Conditions {
			if cond.Type == corev1.NodeReady {
				ready[n.Name] = cond.Status == corev1.ConditionTrue
			}
		}
	}
	var missing []string
	for _, name := range names {
		if !ready[name] {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("nodes not Ready: %s", strings.Join(missing, ", "))
	}
	return nil
}

func (c *Cluster) nodeNames() []string {
	var names []string
	for i := range c.Options.FakeNodes {
		names = append(names, FakeNodeName(i))
	}
	for i := range c.Options.ProcessNodes {
		names = append(names, ProcessNodeName(i))
	}
	if c.Options.KubeletNode {
		names = append(names, KubeletNodeName)
	}
	return names
}
