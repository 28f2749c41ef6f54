package applier

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const valid = `# a comment
apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata:
  name: x
spec:
  parentResource: {apiVersion: exp.dev/v1, resource: trains}
  childResources:
  - {apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}
  generateSelector: true
  hooks:
    sync: {version: v2, webhook: {url: "http://127.0.0.1/sync", timeout: 3s}}
`

func TestParse(t *testing.T) {
	list, err := Parse([]byte("---\n# nothing here\n---\n" + valid + "---\n" + strings.Replace(valid, "name: x", "name: z", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].Name != "x" || list[1].Name != "z" {
		t.Fatalf("got %d controllers", len(list))
	}
	if got := list[0].Spec.Hooks.Sync.Timeout(); got != 3*time.Second {
		t.Errorf("timeout %s", got)
	}
	if got := list[0].Spec.ChildResources[0].method(); got != InPlace {
		t.Errorf("method %s", got)
	}
	if list[0].childrenAreComplete() || !list[0].generatesSelector() {
		t.Error("children complete, or no selector generated")
	}
}

func TestHookDefaultsAreThoseOfTheAPI(t *testing.T) {
	for text, want := range map[string]struct {
		v1      bool
		timeout time.Duration
	}{
		`{version: v2, webhook: {url: "http://127.0.0.1/sync", timeout: 3s}}`: {false, 3 * time.Second},
		`{version: v1, webhook: {url: "http://127.0.0.1/sync", timeout: 0s}}`: {true, 10 * time.Second},
		`{webhook: {url: "http://127.0.0.1/sync", timeout: -1s}}`:             {true, 10 * time.Second},
		`{webhook: {service: {name: a, namespace: b}, path: /sync}}`:          {true, 10 * time.Second},
		`{version: v2}`: {false, 10 * time.Second},
	} {
		list, err := Parse([]byte(strings.Replace(valid, `{version: v2, webhook: {url: "http://127.0.0.1/sync", timeout: 3s}}`, text, 1)))
		if err != nil {
			t.Fatal(err)
		}
		hook := list[0].Spec.Hooks.Sync
		if hook.SpeaksV1() != want.v1 || hook.Timeout() != want.timeout {
			t.Errorf("%s: v1 %v, timeout %s", text, hook.SpeaksV1(), hook.Timeout())
		}
	}
}

func TestParseRefusals(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"empty":              {valid, "", "no CompositeController in the file"},
		"other kind":         {"kind: CompositeController", "kind: DecoratorController", `document 1: want metacontroller.k8s.io/v1alpha1 CompositeController, got "metacontroller.k8s.io/v1alpha1" "DecoratorController"`},
		"unknown field":      {"generateSelector: true", "generateSelektor: true", `unknown field "spec.generateSelektor"`},
		"duplicate field":    {"generateSelector: true", "generateSelector: true\n  generateSelector: true", "generateSelector"},
		"no name":            {"name: x", "labels: {}", "metadata.name: missing"},
		"no parent":          {"resource: trains", "resource: \"\"", "spec.parentResource.resource: missing"},
		"bad version":        {"apiVersion: exp.dev/v1,", "apiVersion: a/b/c,", `spec.parentResource.apiVersion: want group/version or version, got "a/b/c"`},
		"bad selector":       {"resource: trains", "resource: trains, labelSelector: {matchExpressions: [{key: a, operator: Is}]}", "spec.parentResource.labelSelector:"},
		"rolling":            {"method: InPlace", "method: RollingInPlace", "spec.childResources[0].updateStrategy.method: RollingInPlace is not supported; use InPlace or Recreate"},
		"unknown method":     {"method: InPlace", "method: Inplace", `unknown method "Inplace"`},
		"status checks":      {"method: InPlace", "method: InPlace, statusChecks: {conditions: [{type: Ready}]}", "updateStrategy.statusChecks: belongs to rolling updates"},
		"revision history":   {"resource: trains", "resource: trains, revisionHistory: {fieldPaths: [spec]}", "spec.parentResource.revisionHistory: belongs to rolling updates"},
		"child twice":        {"  generateSelector", "  - {apiVersion: v1, resource: configmaps}\n  generateSelector", "spec.childResources[1]: configmaps. occurs twice"},
		"hook version":       {"version: v2", "version: v3", `spec.hooks.sync.version: want v1 or v2, got "v3"`},
		"no hooks":           {"    sync:", "    customize:", "spec.hooks: neither a sync nor a finalize hook is defined"},
		"dead hook":          {"    sync:", "    preUpdateChild: {version: v2}\n    sync:", "spec.hooks.preUpdateChild: is called by no version of Metacontroller"},
		"resync period":      {"generateSelector: true", "resyncPeriodSeconds: 0", "spec.resyncPeriodSeconds: must be at least 1"},
		"unknown style":      {"  name: x", "  name: x\n  annotations: {applier.rtj.dev/children: whole}", `want "partial" or "complete", got "whole"`},
		"unknown warning":    {"  name: x", "  name: x\n  annotations: {applier.rtj.dev/warnings: \"Stalled=Yes\"}", `want conditions such as "Stalled=True,Reachable=False", got "Stalled=Yes"`},
		"several faults":     {"method: InPlace", "method: RollingRecreate, statusChecks: {}", "statusChecks"},
		"controller as list": {"spec:", "spec: []\nspek:", "document 1:"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(valid, c.old) {
				t.Fatalf("nothing to replace: %s", c.old)
			}
			_, err := Parse([]byte(strings.Replace(valid, c.old, c.new, 1)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(valid))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := Parse(text)
		if err == nil && len(list) == 0 {
			t.Error("neither a controller nor an error")
		}
	})
}

// Errors of YAML name lines of the file, in whichever document they are.
func TestParseNamesLinesOfTheFile(t *testing.T) {
	lines := strings.Count(valid, "\n")
	_, err := Parse([]byte(valid + "--- # the second\nkind: CompositeController\nmetadata: a: b\n"))
	// The fault is in the second line after the separator.
	if want := fmt.Sprintf("document 2 (from line %d): ", lines+2); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if want := fmt.Sprintf("line %d: ", lines+3); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// What the API server stores is read like a file.
func TestFromObject(t *testing.T) {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(valid), &object.Object); err != nil {
		t.Fatal(err)
	}
	object.SetUID("u")
	object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
	object.Object["status"] = map[string]any{}
	c, err := FromObject(object)
	if err != nil || c.Name != "x" || c.UID != "u" {
		t.Errorf("got %+v, %v", c, err)
	}
	if err := unstructured.SetNestedField(object.Object, "yes", "spec", "fast"); err != nil {
		t.Fatal(err)
	}
	if _, err := FromObject(object); err == nil || !strings.Contains(err.Error(), `CompositeController x: unknown field "spec.fast"`) {
		t.Errorf("got %v", err)
	}
}
