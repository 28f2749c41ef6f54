package cluster

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	sigsyaml "sigs.k8s.io/yaml"
)

// prerequisite is a CRD that an existing cluster must serve for RTJ.
type prerequisite struct {
	crd, version string
	install      string
}

var prerequisites = []prerequisite{
	{"workloads.kueue.x-k8s.io", "v1beta2", "Kueue 0.19 or later"},
	{"localqueues.kueue.x-k8s.io", "v1beta2", "Kueue 0.19 or later"},
	{"clusterqueues.kueue.x-k8s.io", "v1beta2", "Kueue 0.19 or later"},
	{"jobsets.jobset.x-k8s.io", "v1alpha2", "JobSet 0.12 or later"},
}

// InstallExisting installs RTJ's CRDs and roles from the checkout into the
// cluster of a kubeconfig context (empty: the current one), after checking
// that Kueue and JobSet are there.
func InstallExisting(ctx context.Context, contextName string, progress io.Writer) error {
	root, err := FindRoot()
	if err != nil {
		return err
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{CurrentContext: contextName})
	config, err := loader.ClientConfig()
	if err != nil {
		return fmt.Errorf("no cluster to install into (set KUBECONFIG or --context): %w", err)
	}
	apply, err := newApplier(config)
	if err != nil {
		return err
	}
	fmt.Fprintln(progress, "installing into", config.Host)
	var missing []string
	for _, p := range prerequisites {
		crd, err := apply.client.Resource(crdResource).Get(ctx, p.crd, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s: look for CRD %s: %w", config.Host, p.crd, err)
		}
		if apierrors.IsNotFound(err) {
			crd = nil
		}
		if problem := p.check(crd); problem != "" {
			missing = append(missing, problem)
		}
	}
	problem, err := kueueKnowsRTJ(ctx, apply)
	if err != nil {
		return err
	}
	if problem != "" {
		missing = append(missing, problem)
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s lacks what RTJ needs:\n  %s", config.Host, strings.Join(missing, "\n  "))
	}
	if err := installRTJ(ctx, apply, root, ""); err != nil {
		return err
	}
	fmt.Fprintln(progress, "RTJ's CRDs and roles are installed")
	return nil
}

// kueueKnowsRTJ looks into the configuration of Kueue where its own
// installation keeps it. An installation that keeps it elsewhere is trusted.
func kueueKnowsRTJ(ctx context.Context, apply *applier) (problem string, err error) {
	configMaps := apply.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	cm, err := configMaps.Namespace(kueueNamespace).Get(ctx, "kueue-manager-config", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look for Kueue's configuration: %w", err)
	}
	data, _, _ := unstructured.NestedStringMap(cm.Object, "data")
	for _, text := range data {
		var config struct {
			Integrations struct {
				ExternalFrameworks []string `json:"externalFrameworks"`
			} `json:"integrations"`
		}
		if err := sigsyaml.Unmarshal([]byte(text), &config); err != nil {
			return "", fmt.Errorf("ConfigMap %s/kueue-manager-config: %w", kueueNamespace, err)
		}
		if slices.Contains(config.Integrations.ExternalFrameworks, externalFramework) {
			return "", nil
		}
	}
	return fmt.Sprintf("ConfigMap %s/kueue-manager-config does not list %s under integrations.externalFrameworks: add it and restart Kueue",
		kueueNamespace, externalFramework), nil
}

// check says what is wrong with a CRD, nil if it does not exist.
func (p prerequisite) check(crd *unstructured.Unstructured) string {
	if crd == nil {
		return fmt.Sprintf("CRD %s is missing: install %s", p.crd, p.install)
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	var served []string
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok && m["served"] == true {
			if m["name"] == p.version {
				return ""
			}
			served = append(served, fmt.Sprint(m["name"]))
		}
	}
	return fmt.Sprintf("CRD %s serves %s but not %s: install %s", p.crd, strings.Join(served, ", "), p.version, p.install)
}
