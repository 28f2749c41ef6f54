package cmd

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"rtj.dev/rtj/metacontroller/applier"
	"rtj.dev/rtj/metacontroller/manifests"
)

const recorded = "../examples/request.yaml"

// The job of the recorded request asks for 8 GPUs of a queue that has 4.
func TestRecordedRequestIsAnswered(t *testing.T) {
	args := []string{"hook", "sync", "--request", recorded, "--now", "2026-11-30T03:28:00Z"}
	a := answer(t, "", args...)
	if got := phase(a); got != "Queued/WaitingForQuota" {
		t.Errorf("%s, want Queued/WaitingForQuota", got)
	}
	children := a["children"].([]any)
	if len(children) != 1 || children[0].(map[string]any)["kind"] != "Workload" {
		t.Errorf("children %v, want the Workload that queues", children)
	}
	code, out, errs := rtj("", append(args, "--explain")...)
	if code != 0 || !strings.Contains(out, "maximum capacity (4)") {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
}

// What a runner sends is recorded: each kind of child, and each kind that the
// customize hook asks for.
func TestRecordingHasEveryKind(t *testing.T) {
	text, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	var request struct {
		Controller, Parent json.RawMessage
		Children, Related  map[string]json.RawMessage
	}
	if err := yaml.Unmarshal(text, &request); err != nil {
		t.Fatal(err)
	}
	controllers, err := applier.Parse(manifests.CompositeController)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, child := range controllers[0].Spec.ChildResources {
		kinds = append(kinds, keyLike(child.APIVersion, child.Resource.Resource))
	}
	hasEach(t, "children", kinds, request.Children)

	asked, err := json.Marshal(map[string]any{"controller": request.Controller, "parent": request.Parent})
	if err != nil {
		t.Fatal(err)
	}
	kinds = nil
	for _, item := range answer(t, string(asked), "hook", "customize", "--request", "-")["relatedResources"].([]any) {
		rule := item.(map[string]any)
		kinds = append(kinds, keyLike(rule["apiVersion"].(string), rule["resource"].(string)))
	}
	hasEach(t, "related", kinds, request.Related)
}

// keyLike is the key of a kind, with the plural: workloads.kueue.x-k8s.io/v1beta2.
func keyLike(apiVersion, resource string) string { return resource + "." + apiVersion }

// hasEach compares with the request, and with examples/record.sh, which made it.
func hasEach(t *testing.T, where string, want []string, recorded map[string]json.RawMessage) {
	t.Helper()
	script, err := os.ReadFile("../examples/record.sh")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for key := range recorded {
		kind, version, _ := strings.Cut(key, ".")
		plural := strings.ToLower(kind) + "s"
		if strings.HasSuffix(kind, "s") { // WorkloadPriorityClass
			plural = strings.ToLower(kind) + "es"
		}
		got = append(got, keyLike(version, plural))
		if !strings.Contains(string(script), "objects "+key+" ") {
			t.Errorf("record.sh does not record %s", key)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(slices.Compact(want), got) {
		t.Errorf("%s: recorded %v, sent by a runner %v", where, got, want)
	}
}
