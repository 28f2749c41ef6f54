package cluster

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestKueueIsConfiguredForRTJ(t *testing.T) {
	info := Info{Dir: "/state", Ports: map[string]int{"kueue-health": 1, "kueue-metrics": 2, "kueue-webhook": 3}}
	info.Options.KueueFrameworks = []string{FrameworkJobSet, FrameworkPod}
	info.Options.KueueFeatureGates = map[string]bool{"PriorityBoost": true}
	info.Options.KueueConfig = map[string]any{
		"waitForPodsReady": map[string]any{"timeout": "2m"},
		"clientConnection": map[string]any{"qps": 7},
	}
	got := asJSON(t, kueueConfig(info))
	want := map[string]any{
		"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", "namespace": "kueue-system",
		"health":                 map[string]any{"healthProbeBindAddress": "127.0.0.1:1"},
		"metrics":                map[string]any{"bindAddress": "127.0.0.1:2"},
		"webhook":                map[string]any{"host": "127.0.0.1", "port": 3.0, "certDir": "/state/config/webhook-certs"},
		"leaderElection":         map[string]any{"leaderElect": false},
		"internalCertManagement": map[string]any{"enable": false},
		"clientConnection":       map[string]any{"qps": 7.0, "burst": 1000.0},
		"featureGates":           map[string]any{"VisibilityOnDemand": false, "PriorityBoost": true},
		"waitForPodsReady":       map[string]any{"timeout": "2m"},
		"integrations": map[string]any{
			"frameworks":         []any{"jobset.x-k8s.io/jobset", "pod"},
			"externalFrameworks": []any{"ResumableTrainingJob.v1beta1.training.rtj.dev"},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestOverlayLeavesItsInputAlone(t *testing.T) {
	base := map[string]any{"a": map[string]any{"x": 1, "y": 2}, "b": 3}
	got := overlay(base, map[string]any{"a": map[string]any{"y": 4}, "c": 5})
	want := map[string]any{"a": map[string]any{"x": 1, "y": 4}, "b": 3, "c": 5}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !reflect.DeepEqual(base, map[string]any{"a": map[string]any{"x": 1, "y": 2}, "b": 3}) {
		t.Errorf("the base is now %v", base)
	}
}

func TestPrerequisitesAreNamedPrecisely(t *testing.T) {
	crd := func(versions ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"versions": versions}}}
	}
	p := prerequisite{"workloads.kueue.x-k8s.io", "v1beta2", "Kueue 0.19 or later"}
	served := func(name string, on bool) any { return map[string]any{"name": name, "served": on} }
	for _, c := range []struct {
		name string
		crd  *unstructured.Unstructured
		want string
	}{
		{"there", crd(served("v1beta1", true), served("v1beta2", true)), ""},
		{"missing", nil, "CRD workloads.kueue.x-k8s.io is missing: install Kueue 0.19 or later"},
		{"too old", crd(served("v1beta1", true)), "CRD workloads.kueue.x-k8s.io serves v1beta1 but not v1beta2: install Kueue 0.19 or later"},
		{"not served", crd(served("v1beta1", true), served("v1beta2", false)), "CRD workloads.kueue.x-k8s.io serves v1beta1 but not v1beta2: install Kueue 0.19 or later"},
	} {
		if got := p.check(c.crd); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestOnlyManagersGetRoles(t *testing.T) {
	var in []*unstructured.Unstructured
	for _, name := range []string{"manager-role", "workload-editor-role", "workload-viewer-role", "batch-admin-role", "leader-election-role"} {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetName(name)
		in = append(in, u)
	}
	var got []string
	for _, u := range managerRBAC(in) {
		got = append(got, u.GetName())
	}
	if strings.Join(got, " ") != "manager-role leader-election-role" {
		t.Errorf("kept %v", got)
	}
}

func TestLongErrorsAreCut(t *testing.T) {
	long := shortened{errorText(strings.Repeat("x", 5000))}
	if n := len(long.Error()); n > 1300 {
		t.Errorf("%d characters", n)
	}
	if got := (shortened{errorText("short")}).Error(); got != "short" {
		t.Errorf("got %q", got)
	}
}

type errorText string

func (e errorText) Error() string { return string(e) }

func asJSON(t *testing.T, v any) map[string]any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
