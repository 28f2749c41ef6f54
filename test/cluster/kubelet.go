package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"rtj.dev/rtj/test/cluster/internal/cgroup"
	"rtj.dev/rtj/test/cluster/internal/proc"
)

const (
	// containerdSocket is a path in the node's mount namespace.
	containerdSocket = "/run/containerd/containerd.sock"
	// kubeletGPUs is how many nvidia.com/gpu the kubelet node claims to have.
	kubeletGPUs = "64"
	// kubeletNodeAddress is the node's for the API server: the gateway is there.
	kubeletNodeAddress = "127.0.0.1"
	gpuResource        = "nvidia.com/gpu"
)

func (c *Cluster) kubelet() component {
	port := c.Ports[Kubelet]
	return component{
		name: Kubelet, port: port, grace: defaultGrace,
		spec: func() (proc.Spec, error) {
			return c.nodeProgram(Kubelet, c.Programs.Path(Kubelet),
				"--config="+c.nodeConfig("kubelet.yaml"), "--kubeconfig="+c.kubeconfig(KubeletNodeName),
				"--hostname-override="+KubeletNodeName, "--node-labels="+NodeKindLabel+"=kubelet",
				// A kubelet refuses to have a loopback address by itself, but not
				// one that its cloud gave to it.
				"--cloud-provider=external")
		},
		ready: c.kubeletReady,
	}
}

func (c *Cluster) prepareKubelet() error {
	if err := c.kubeletIdentities(); err != nil {
		return err
	}
	if err := cgroup.Create(c.podCgroup()); err != nil {
		return err
	}
	return writeYAML(c.nodeConfig("kubelet.yaml"), kubeletConfig(c.Info))
}

// kubeletConfig is a stock kubelet's as far as the machine lets it be: what
// matters to workers, above all how late ConfigMaps arrive, is not touched.
func kubeletConfig(i Info) map[string]any {
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address": "127.0.0.1", "port": i.Ports[Kubelet],
		"tlsCertFile":       i.path("pki", KubeletNodeName+"-serving.crt"),
		"tlsPrivateKeyFile": i.path("pki", KubeletNodeName+"-serving.key"),
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": true},
			"x509": map[string]any{"clientCAFile": i.ClusterCA},
		},
		"authorization": map[string]any{"mode": "Webhook"},
		"healthzPort":   0,
		"clusterDNS":    []any{dnsIP}, "clusterDomain": clusterDomain,
		// Pods ask the cluster's DNS only; what else the machine asks is its own.
		"resolvConf":               "",
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"cgroupDriver":             "cgroupfs", "cgroupRoot": "/" + i.podCgroup(),
		"failCgroupV1": false, "failSwapOn": false,
		// Needs every disk of the machine to be known to the kubelet.
		"localStorageCapacityIsolation": false,
		// There is no kube-proxy whose rules it would have to guard.
		"makeIPTablesUtilChains": false,
		// The machine's disks are not the node's to watch over.
		"evictionHard":                map[string]any{"memory.available": "100Mi"},
		"imageGCHighThresholdPercent": 100,
	}
}

// kubeletReady: the kubelet is well and has reported, and its node is Ready and
// has what a cloud and a device plugin would have given to it. What an earlier
// kubelet reported counts for nothing: the next one puts it right when it comes.
func (c *Cluster) kubeletReady(ctx context.Context) error {
	url := fmt.Sprintf("https://127.0.0.1:%d/healthz", c.Ports[Kubelet])
	if err := c.answers(url, "apiserver-kubelet-client")(ctx); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.RESTConfig)
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, KubeletNodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	r, err := c.table().Get(Kubelet)
	if err != nil {
		return err
	}
	for _, cond := range node.Status.Conditions {
		if cond.Type == corev1.NodeReady && cond.LastHeartbeatTime.Time.Before(r.Started) {
			return fmt.Errorf("node %s has not reported since its kubelet started", KubeletNodeName)
		}
	}
	if err := provideNode(ctx, client, node); err != nil {
		return err
	}
	return c.ready(ctx, KubeletNodeName)
}

// provideNode is the node's cloud: it gives it its address and lets pods come.
// It also gives it GPUs, in the way that Kubernetes documents for resources that
// no device plugin manages; a kubelet that is started again takes them away.
func provideNode(ctx context.Context, client kubernetes.Interface, node *corev1.Node) error {
	nodes := client.CoreV1().Nodes()
	gpus := node.Status.Capacity[gpuResource]
	if gpus.String() != kubeletGPUs || !slices.ContainsFunc(node.Status.Addresses, isKubeletAddress) {
		patch := fmt.Appendf(nil, `{"status":{"capacity":{%q:%q},"allocatable":{%q:%q},"addresses":[{"type":"InternalIP","address":%q},{"type":"Hostname","address":%q}]}}`,
			gpuResource, kubeletGPUs, gpuResource, kubeletGPUs, kubeletNodeAddress, KubeletNodeName)
		if _, err := nodes.Patch(ctx, KubeletNodeName, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			return fmt.Errorf("give node %s its address and GPUs: %w", KubeletNodeName, err)
		}
	}
	const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
	waits := func(t corev1.Taint) bool { return t.Key == uninitialized }
	if !slices.ContainsFunc(node.Spec.Taints, waits) {
		return nil
	}
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, waits)
	if _, err := nodes.Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("let pods come to node %s: %w", KubeletNodeName, err)
	}
	return nil
}

func isKubeletAddress(a corev1.NodeAddress) bool {
	return a.Type == corev1.NodeInternalIP && a.Address == kubeletNodeAddress
}
