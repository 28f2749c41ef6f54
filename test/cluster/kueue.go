package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	sigsyaml "sigs.k8s.io/yaml"

	"rtj.dev/rtj/test/cluster/internal/manifest"
	"rtj.dev/rtj/test/cluster/internal/privatefs"
	"rtj.dev/rtj/test/cluster/internal/proc"
)

// kueueCertDir is where Kueue's certificates lie for real; it sees them below
// /etc, where it insists on having them.
func kueueCertDir(i Info) string { return i.path("config", "etc", "kueue", "metrics", "certs") }

func (c *Cluster) kueue() component {
	port := c.Ports["kueue-health"]
	return component{
		name: Kueue, port: port, grace: defaultGrace,
		spec: func() (proc.Spec, error) {
			config := c.path("config", "kueue.yaml")
			if err := writeYAML(config, kueueConfig(c.Info)); err != nil {
				return proc.Spec{}, err
			}
			return proc.Spec{
				Name: Kueue, Path: "/proc/self/exe", Arg0: privatefs.Arg0, Sys: privatefs.Sys(), Dir: c.Dir,
				Args: privatefs.Args(c.path("config", "etc"), c.Programs.Path("kueue"), "--config="+config, "--zap-log-level=2"),
				Env:  []string{"KUBECONFIG=" + c.kubeconfig("kueue")},
			}, nil
		},
		ready: c.answers(fmt.Sprintf("http://127.0.0.1:%d/readyz", port), ""),
	}
}

func kueueConfig(i Info) map[string]any {
	gates := map[string]any{
		// It would serve an aggregated API, which needs certificates and a
		// Service of its own.
		"VisibilityOnDemand": false,
	}
	for name, on := range i.Options.KueueFeatureGates {
		gates[name] = on
	}
	config := map[string]any{
		"apiVersion":             "config.kueue.x-k8s.io/v1beta2",
		"kind":                   "Configuration",
		"namespace":              kueueNamespace,
		"health":                 map[string]any{"healthProbeBindAddress": loopback(i.Ports["kueue-health"])},
		"metrics":                map[string]any{"bindAddress": loopback(i.Ports["kueue-metrics"])},
		"webhook":                webhookServer(i, "kueue-webhook"),
		"leaderElection":         map[string]any{"leaderElect": false},
		"internalCertManagement": map[string]any{"enable": false},
		"clientConnection":       map[string]any{"qps": 500, "burst": 1000},
		"featureGates":           gates,
		"integrations": map[string]any{
			"frameworks":         i.Options.KueueFrameworks,
			"externalFrameworks": []string{externalFramework},
		},
	}
	return overlay(config, i.Options.KueueConfig)
}

func (c *Cluster) jobset() component {
	port := c.Ports["jobset-health"]
	return component{
		name: JobSet, port: port, grace: defaultGrace,
		spec: func() (proc.Spec, error) {
			config := c.path("config", "jobset.yaml")
			if err := writeYAML(config, jobsetConfig(c.Info)); err != nil {
				return proc.Spec{}, err
			}
			return proc.Spec{
				Name: JobSet, Path: c.Programs.Path("jobset"), Args: []string{"--config=" + config}, Dir: c.Dir,
				Env: []string{"KUBECONFIG=" + c.kubeconfig("jobset")},
			}, nil
		},
		ready: c.answers(fmt.Sprintf("http://127.0.0.1:%d/readyz", port), ""),
	}
}

func jobsetConfig(i Info) map[string]any {
	return map[string]any{
		"apiVersion":             "config.jobset.x-k8s.io/v1alpha1",
		"kind":                   "Configuration",
		"leaderElection":         map[string]any{"leaderElect": false},
		"internalCertManagement": map[string]any{"enable": false},
		"health":                 map[string]any{"healthProbeBindAddress": loopback(i.Ports["jobset-health"])},
		"metrics":                map[string]any{"bindAddress": "0"},
		"webhook":                webhookServer(i, "jobset-webhook"),
		"clientConnection":       map[string]any{"qps": 500, "burst": 1000},
		"featureGates":           i.Options.JobSetFeatureGates,
	}
}

func webhookServer(i Info, port string) map[string]any {
	return map[string]any{"host": "127.0.0.1", "port": i.Ports[port], "certDir": i.path("config", "webhook-certs")}
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// overlay lays values over base: objects are merged, all else is replaced.
func overlay(base, values map[string]any) map[string]any {
	out := maps.Clone(base)
	for key, value := range values {
		inner, isObject := value.(map[string]any)
		below, wasObject := out[key].(map[string]any)
		if isObject && wasObject {
			out[key] = overlay(below, inner)
		} else {
			out[key] = value
		}
	}
	return out
}

func writeYAML(path string, value any) error {
	data, err := sigsyaml.Marshal(value)
	if err != nil {
		return err
	}
	return writeFile(path, data, 0o600)
}

// webhooks are the admission webhooks of Kueue and JobSet, served from
// loopback: Kueue's own kinds, and those of the integrations that are on.
func (c *Cluster) webhooks(ca []byte) ([]*unstructured.Unstructured, error) {
	kueueHooks, err := manifest.Read(c.Programs.Manifests + "/kueue/webhook.yaml")
	if err != nil {
		return nil, err
	}
	forKueue := manifest.Webhooks{
		Prefix: "kueue-", Port: c.Ports["kueue-webhook"], CA: ca,
		SkipNamespaces: []string{"kube-system", kueueNamespace},
		NoSelector:     []string{"kueue.x-k8s.io"},
		Keep: func(group, resource string) bool {
			framework := map[string]string{
				"batch/jobs": FrameworkJob, "jobset.x-k8s.io/jobsets": FrameworkJobSet, "/pods": FrameworkPod,
			}[group+"/"+resource]
			return group == "kueue.x-k8s.io" || slices.Contains(c.Options.KueueFrameworks, framework)
		},
	}
	all, err := forKueue.Rewrite(kueueHooks)
	if err != nil {
		return nil, err
	}
	jobsetHooks, err := manifest.Read(c.Programs.Manifests + "/jobset/webhook.yaml")
	if err != nil {
		return nil, err
	}
	forJobSet := manifest.Webhooks{
		Prefix: "jobset-", Port: c.Ports["jobset-webhook"], CA: ca,
		PodLabel: "jobset.sigs.k8s.io/jobset-name",
		Keep:     func(group, _ string) bool { return group != "" || c.Options.JobSetPodWebhook },
	}
	rest, err := forJobSet.Rewrite(jobsetHooks)
	if err != nil {
		return nil, err
	}
	return append(all, rest...), nil
}

// applyWebhooks installs them once both servers are ready: until then they
// would refuse every Job and JobSet.
func (c *Cluster) applyWebhooks(ctx context.Context, apply *applier) error {
	hooks, err := c.webhooks(apply.ca)
	if err != nil {
		return err
	}
	return apply.all(ctx, hooks)
}
