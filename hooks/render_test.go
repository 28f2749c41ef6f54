package hooks

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rtj.dev/rtj/compose"
)

// Whatever is rendered is what compose says, in another order of members.
func TestRenderIsWhatComposeSays(t *testing.T) {
	observed := `{
		"kind": "JobSet", "apiVersion": "jobset.x-k8s.io/v1alpha2",
		"metadata": {"name": "llama-1", "uid": "u", "resourceVersion": "7", "generation": 2, "creationTimestamp": null,
			"labels": {"a": "b"}, "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{\"x\":[]}"}},
		"spec": {"suspend": true, "network": {"enableDNSHostnames": true}, "replicatedJobs": [{"name": "w", "unknown \" } field": [1, 2.50, {}]}], "x": null},
		"status": {"conditions": []}}`
	field := func(value any, path ...string) compose.Field { return compose.Field{Path: path, Value: value} }
	for name, c := range map[string]compose.Child{
		"unchanged":                              {},
		"a field is replaced":                    {Set: []compose.Field{field(false, "spec", "suspend")}},
		"a field is removed":                     {Set: []compose.Field{field(nil, "spec", "network")}},
		"a field that is not there is removed":   {Set: []compose.Field{field(nil, "spec", "nothing", "here")}},
		"a field is made, with what is above it": {Set: []compose.Field{field("v", "metadata", "annotations", "training.rtj.dev/started")}},
		"below a field that is no object":        {Set: []compose.Field{field("v", "spec", "x", "y")}},
		"a field is set, then another in it":     {Set: []compose.Field{field(map[string]any{"a": 1}, "spec", "network"), field(true, "spec", "network", "b")}},
		"an object":                              {Set: []compose.Field{field(map[string]string{"control.json": "{\"a\":1}"}, "data")}},
	} {
		t.Run(name, func(t *testing.T) {
			c.APIVersion, c.Kind, c.Name, c.Observed = "jobset.x-k8s.io/v1alpha2", "JobSet", "llama-1", json.RawMessage(observed)
			compareWithCompose(t, &c)
		})
	}
	t.Run("new", func(t *testing.T) {
		compareWithCompose(t, &compose.Child{APIVersion: "v1", Kind: "ConfigMap", Name: "c", New: map[string]any{
			"metadata": map[string]any{"name": "c", "creationTimestamp": nil}, "data": map[string]string{"k": "v"}, "status": map[string]any{}}})
	})
}

// What the API server or a client keeps in an object is not sent back: a stale
// resourceVersion would be a conflict, and managedFields would be refused.
func TestRenderReturnsNothingOfTheAPIServers(t *testing.T) {
	observed := `{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c", "namespace": "n", "labels": {"a": "b"}, "finalizers": ["f"],
		"managedFields": [{}], "uid": "u", "resourceVersion": "7", "generation": 2, "creationTimestamp": "2026-11-29T10:00:00Z",
		"deletionTimestamp": "2026-11-29T10:00:00Z", "deletionGracePeriodSeconds": 30, "selfLink": "/c",
		"annotations": {%s"metacontroller.k8s.io/last-applied-configuration": "{}", "kubectl.kubernetes.io/last-applied-configuration": "{}"}},
		"data": {"k": "v"}, "status": {"phase": "x"}}`
	for mine, annotations := range map[string]map[string]any{"": nil, `"mine": "x", `: {"mine": "x"}} {
		c := &compose.Child{APIVersion: "v1", Kind: "ConfigMap", Name: "c", Observed: json.RawMessage(fmt.Sprintf(observed, mine))}
		metadata := map[string]any{"name": "c", "namespace": "n", "labels": map[string]any{"a": "b"}, "finalizers": []any{"f"}}
		if annotations != nil {
			metadata["annotations"] = annotations
		}
		want := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": map[string]any{"k": "v"}}
		got, err := render(c)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(any(want), values(t, got)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		compareWithCompose(t, c)
	}
}

func compareWithCompose(t *testing.T, c *compose.Child) {
	t.Helper()
	got, err := render(c)
	if err != nil {
		t.Fatal(err)
	}
	object, err := c.Render()
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(values(t, want), values(t, got)); diff != "" {
		t.Errorf("rendered otherwise than compose does (-compose +rendered):\n%s\n%s", diff, got)
	}
}

func values(t *testing.T, raw []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return v
}
