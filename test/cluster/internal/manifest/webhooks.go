package manifest

import (
	"encoding/base64"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Webhooks says how a project's webhook configurations are served.
type Webhooks struct {
	// Prefix goes before the names of the configurations, as the project's own
	// installation does it ("kueue-").
	Prefix string
	// Port is where the webhooks listen on 127.0.0.1, CA signs their
	// certificate (PEM).
	Port int
	CA   []byte
	// Keep says by group and resource ("" is the core group) which webhooks to
	// install.
	Keep func(group, resource string) bool
	// SkipNamespaces lists namespaces in which webhooks on pods and on things
	// that make pods are not called, so that the system's own can start.
	SkipNamespaces []string
	// PodLabel, where not empty, limits webhooks on pods to those that carry
	// the label.
	PodLabel string
	// NoSelector lists groups whose webhooks see every namespace.
	NoSelector []string
}

// Rewrite returns the configurations with the kept webhooks, each reached by
// URL instead of through a Service: a Service of this cluster has no way to a
// process on loopback.
func (w Webhooks) Rewrite(configs []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, config := range configs {
		config = config.DeepCopy()
		hooks, _, err := unstructured.NestedSlice(config.Object, "webhooks")
		if err != nil {
			return nil, err
		}
		var kept []any
		for _, h := range hooks {
			hook, ok := h.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%s: a webhook is not an object", config.GetName())
			}
			keep, err := w.rewriteOne(hook)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", config.GetName(), err)
			}
			if keep {
				kept = append(kept, hook)
			}
		}
		if len(kept) == 0 {
			continue
		}
		config.Object["webhooks"] = kept
		config.SetName(w.Prefix + config.GetName())
		out = append(out, config)
	}
	return out, nil
}

func (w Webhooks) rewriteOne(hook map[string]any) (keep bool, err error) {
	group, resource, err := firstRule(hook)
	if err != nil || !w.Keep(group, resource) {
		return false, err
	}
	path, found, err := unstructured.NestedString(hook, "clientConfig", "service", "path")
	if err != nil || !found {
		return false, fmt.Errorf("webhook %v: clientConfig.service.path is missing", hook["name"])
	}
	hook["clientConfig"] = map[string]any{
		"url":      fmt.Sprintf("https://127.0.0.1:%d%s", w.Port, path),
		"caBundle": base64.StdEncoding.EncodeToString(w.CA),
	}
	if len(w.SkipNamespaces) > 0 && !slices.Contains(w.NoSelector, group) && hook["namespaceSelector"] == nil {
		names := make([]any, len(w.SkipNamespaces))
		for i, n := range w.SkipNamespaces {
			names[i] = n
		}
		hook["namespaceSelector"] = map[string]any{"matchExpressions": []any{map[string]any{
			"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": names,
		}}}
	}
	if w.PodLabel != "" && group == "" && resource == "pods" {
		hook["objectSelector"] = map[string]any{"matchExpressions": []any{map[string]any{
			"key": w.PodLabel, "operator": "Exists",
		}}}
	}
	return true, nil
}

func firstRule(hook map[string]any) (group, resource string, err error) {
	rules, _, err := unstructured.NestedSlice(hook, "rules")
	if err != nil || len(rules) == 0 {
		return "", "", fmt.Errorf("webhook %v: no rules", hook["name"])
	}
	rule, _ := rules[0].(map[string]any)
	groups, _, _ := unstructured.NestedStringSlice(rule, "apiGroups")
	resources, _, _ := unstructured.NestedStringSlice(rule, "resources")
	if len(groups) == 0 || len(resources) == 0 {
		return "", "", fmt.Errorf("webhook %v: a rule without groups or resources", hook["name"])
	}
	return groups[0], resources[0], nil
}
