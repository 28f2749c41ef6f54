package main

import (
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"rtj.dev/rtj/test/node/image"
	"rtj.dev/rtj/test/node/kubelet"
)

// options are the flags as they are given.
type options struct {
	kubeconfig, name, dir, podCIDR, apiServer, clusterCA string
	images                                               []string
	refresh, lease                                       time.Duration
	gpus, maxPods                                        int64
	cpu, memory                                          string
	labels                                               map[string]string
	taints                                               []string
	port                                                 int
	tlsCert, tlsKey                                      string
	stopContainers                                       bool
}

// command is the program; it reads its flags into o.
func command(o *options) *cobra.Command {
	c := &cobra.Command{
		Use:           "process-node",
		Short:         "A Kubernetes node whose containers are processes of this machine",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := o.config()
			if err != nil {
				return err
			}
			return kubelet.Run(cmd.Context(), cfg)
		},
	}
	f := c.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "`FILE` that says how to reach the API server, as the node")
	f.StringVar(&o.name, "name", "", "the node's name")
	f.StringVar(&o.dir, "dir", "", "`DIR` for the node's state")
	f.StringVar(&o.podCIDR, "pod-cidr", "", "loopback addresses of the node (the first) and of its pods, such as 127.77.0.0/24")
	f.StringSliceVar(&o.images, "images", nil, "host environments by image name: `NAME=DIR,...`")
	f.StringVar(&o.apiServer, "api-server", "", "`URL` at which containers find the API server (default: the kubeconfig's)")
	f.StringVar(&o.clusterCA, "cluster-ca", "", "PEM `FILE`; only clients with a certificate of it may read logs (default: everybody on this machine)")
	f.DurationVar(&o.refresh, "config-refresh", time.Minute, "how late ConfigMap and Secret volumes follow their objects")
	f.Int64Var(&o.gpus, "gpus", 8, "nvidia.com/gpu that the node claims to have")
	f.StringVar(&o.cpu, "cpu", "", "allocatable CPU (default: the machine's)")
	f.StringVar(&o.memory, "memory", "", "allocatable memory (default: the machine's)")
	f.Int64Var(&o.maxPods, "max-pods", 110, "allocatable pods")
	f.StringToStringVar(&o.labels, "labels", nil, "further labels of the node: `K=V,...`")
	f.StringSliceVar(&o.taints, "taints", nil, "taints of the node: `K=V:EFFECT,...`")
	f.IntVar(&o.port, "port", 0, "port of the log server (default: a free one)")
	f.StringVar(&o.tlsCert, "tls-cert-file", "", "PEM `FILE` with the log server's certificate (default: self-signed)")
	f.StringVar(&o.tlsKey, "tls-private-key-file", "", "PEM `FILE` with its key")
	f.DurationVar(&o.lease, "lease-duration", 40*time.Second, "how long the node's lease lasts; it is renewed four times in this")
	f.BoolVar(&o.stopContainers, "stop-containers-on-exit", false, "end the containers with the node, instead of leaving them to the next one")
	for _, required := range []string{"kubeconfig", "name", "dir", "pod-cidr"} {
		if err := c.MarkFlagRequired(required); err != nil {
			panic(err)
		}
	}
	c.AddCommand(cleanup())
	return c
}

func cleanup() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "cleanup",
		Short: "End all containers of a state directory whose node does not run, and delete it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := os.Stat(dir); os.IsNotExist(err) {
				return nil
			}
			return kubelet.Cleanup(dir, cmd.OutOrStdout())
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "the state `DIR`")
	if err := c.MarkFlagRequired("dir"); err != nil {
		panic(err)
	}
	return c
}

func (o *options) config() (kubelet.Config, error) {
	cfg := kubelet.Config{
		Name: o.name, Dir: o.dir, ConfigRefresh: o.refresh, Labels: o.labels, LeaseDuration: o.lease, Port: o.port,
		TLSCert: o.tlsCert, TLSKey: o.tlsKey, ClientCA: o.clusterCA, StopContainers: o.stopContainers,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	klog.SetLogger(logr.FromSlogHandler(cfg.Log.Handler()))
	if bad := validation.IsDNS1123Subdomain(o.name); len(bad) > 0 {
		return cfg, fmt.Errorf("--name %q: %s", o.name, strings.Join(bad, "; "))
	}
	for flag, d := range map[string]time.Duration{"config-refresh": o.refresh, "lease-duration": o.lease} {
		if d < time.Second {
			return cfg, fmt.Errorf("--%s %s: must be at least one second", flag, d)
		}
	}
	if (o.tlsCert == "") != (o.tlsKey == "") {
		return cfg, fmt.Errorf("--tls-cert-file and --tls-private-key-file belong together")
	}
	var err error
	if cfg.PodCIDR, err = podRange(o.podCIDR); err != nil {
		return cfg, fmt.Errorf("--pod-cidr: %w", err)
	}
	if cfg.Images, err = image.Parse(o.images); err != nil {
		return cfg, fmt.Errorf("--images: %w", err)
	}
	if cfg.Taints, err = parseTaints(o.taints); err != nil {
		return cfg, fmt.Errorf("--taints: %w", err)
	}
	if cfg.Allocatable, err = o.allocatable(); err != nil {
		return cfg, err
	}
	if cfg.Client, err = clientConfig(o.kubeconfig); err != nil {
		return cfg, fmt.Errorf("--kubeconfig: %w", err)
	}
	server := o.apiServer
	if server == "" {
		server = cfg.Client.Host
	}
	if cfg.APIServer, err = url.Parse(server); err != nil || cfg.APIServer.Hostname() == "" {
		return cfg, fmt.Errorf("--api-server %q: not a URL with a host", server)
	}
	return cfg, nil
}

func clientConfig(path string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, err
	}
	config.UserAgent = "process-node"
	config.QPS, config.Burst = 200, 400
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config, nil
}

func podRange(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, err
	}
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	if !p.Addr().Is4() || !loopback.Contains(p.Addr()) || p.Bits() < 16 || p.Bits() > 29 {
		return p, fmt.Errorf("%s is not a range of loopback addresses between /16 and /29", s)
	}
	return p, nil
}

func parseTaints(list []string) ([]corev1.Taint, error) {
	var taints []corev1.Taint
	for _, s := range list {
		pair, effect, ok := strings.Cut(s, ":")
		key, value, _ := strings.Cut(pair, "=")
		switch e := corev1.TaintEffect(effect); e {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
			if ok && key != "" {
				taints = append(taints, corev1.Taint{Key: key, Value: value, Effect: e})
				continue
			}
		}
		return nil, fmt.Errorf("%q: want key=value:NoSchedule, :PreferNoSchedule or :NoExecute", s)
	}
	return taints, nil
}

func (o *options) allocatable() (corev1.ResourceList, error) {
	list := corev1.ResourceList{
		corev1.ResourceCPU:  *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
		corev1.ResourcePods: *resource.NewQuantity(o.maxPods, resource.DecimalSI),
		"nvidia.com/gpu":    *resource.NewQuantity(o.gpus, resource.DecimalSI),
	}
	memory, err := machineMemory()
	if err != nil {
		return nil, err
	}
	list[corev1.ResourceMemory] = *resource.NewQuantity(memory, resource.BinarySI)
	for name, value := range map[corev1.ResourceName]string{corev1.ResourceCPU: o.cpu, corev1.ResourceMemory: o.memory} {
		if value == "" {
			continue
		}
		q, err := resource.ParseQuantity(value)
		if err != nil {
			return nil, fmt.Errorf("--%s %q: %w", name, value, err)
		}
		list[name] = q
	}
	return list, nil
}

// machineMemory is the memory of this machine in bytes.
func machineMemory() (int64, error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "MemTotal: %d kB", &kib); err == nil {
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("/proc/meminfo does not say how much memory there is")
}
