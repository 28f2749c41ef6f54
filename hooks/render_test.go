package hooks

import (
	"encoding/json"
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
