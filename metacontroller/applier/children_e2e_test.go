//go:build e2e

package applier_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier"
)

const configMapA = `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: "1"}}`

func TestStatement27NothingIsWrittenOrReadWhenNothingChanged(t *testing.T) {
	for name, changes := range map[string][]func(*applier.CompositeController){"partial": nil, "complete": {complete}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
				response := answer(`{phase: Running, seen: 1}`)
				for i := range 3 {
					key, minimal := fmt.Sprintf("%s/c%d", w.namespace, i), fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: c%d}, data: {x: "1"}}`, i)
					part := fmt.Sprintf(`{apiVersion: exp.dev/v1, kind: Part, metadata: {name: p%d}, spec: {color: red, items: [{name: a}]}}`, i)
					if name == "partial" {
						response.Children = append(response.Children, rawYAML(minimal), rawYAML(part))
						continue
					}
					same := func(map[string]any) {}
					response.Children = append(response.Children,
						edit(r, "ConfigMap.v1", key, minimal, same),
						edit(r, "Part.exp.dev/v1", strings.Replace(key, "/c", "/p", 1), part, same))
				}
				return response, nil
			}, changes...)
			w.parent("p", nil)
			w.eventually("the status is written", func() bool { return field(w.get(trains, "p"), "status", "phase") == "Running" })
			created := w.quiet()
			if len(created) != 7 {
				t.Errorf("3 ConfigMaps, 3 Parts and a status took %d requests: %v", len(created), created)
			}
			before := w.syncs.Load()
			for range 10 {
				w.applier.Enqueue(w.namespace, "p")
				w.quiet()
			}
			if got := w.syncs.Load() - before; got < 10 {
				t.Errorf("%d syncs", got)
			}
			for range 2 {
				w.applier.Enqueue(w.namespace, "p")
				if idle := w.quiet(); len(idle) > 0 {
					t.Errorf("idle requests: %v", idle)
				}
			}
		})
	}
}

func TestCompleteChildKeepsWhatOthersWroteAndLosesWhatTheHookDropped(t *testing.T) {
	w := newWorld(t)
	color := "red"
	dropNote := false
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		w.mu.Lock()
		color, dropNote := color, dropNote
		w.mu.Unlock()
		return &contract.SyncResponse{Children: []json.RawMessage{edit(r, "Part.exp.dev/v1", w.namespace+"/a",
			`{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {color: red, note: hello}}`,
			func(o map[string]any) {
				spec := o["spec"].(map[string]any)
				spec["color"] = color
				if dropNote {
					delete(spec, "note")
				}
			})}}, nil
	}, complete)
	w.parent("p", nil)
	w.eventually("the child exists", func() bool { return w.get(parts, "a") != nil })
	w.patch(parts, "a", `{"metadata":{"annotations":{"foreign":"yes"},"finalizers":["example.dev/hold"]},"spec":{"active":false}}`)
	w.patch(parts, "a", `{"status":{"phase":"Fine"}}`, "status")
	w.quiet()
	w.mu.Lock()
	color, dropNote = "blue", true
	w.mu.Unlock()
	w.applier.Enqueue(w.namespace, "p")
	if got, want := w.quiet(), []string{"PATCH a"}; !cmp.Equal(got, want, cmp.Transformer("writes", writesOnly)) {
		t.Errorf("requests: %v, want %v", got, want)
	}
	a := w.get(parts, "a")
	got := map[string]any{
		"spec":        a.Object["spec"],
		"status":      a.Object["status"],
		"annotations": a.GetAnnotations(),
		"finalizers":  a.GetFinalizers(),
	}
	want := map[string]any{
		"spec":        map[string]any{"color": "blue", "active": false, "size": int64(3)},
		"status":      map[string]any{"phase": "Fine"},
		"annotations": map[string]string{"foreign": "yes"},
		"finalizers":  []string{"example.dev/hold"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, entry := range a.GetManagedFields() {
		if strings.HasPrefix(entry.Manager, "applier") && entry.Operation == metav1.ManagedFieldsOperationUpdate {
			if owned := entry.FieldsV1.GetRawString(); strings.Contains(owned, "f:active") || strings.Contains(owned, "f:foreign") {
				t.Errorf("fields of others are ours now: %s", owned)
			}
		}
	}
	w.patch(parts, "a", `{"metadata":{"finalizers":null}}`)
}

// writesOnly leaves out status writes of the parent, which tests about children
// do not count.
func writesOnly(requests []string) []string {
	var kept []string
	for _, r := range requests {
		if !strings.HasSuffix(r, "status") {
			kept = append(kept, r)
		}
	}
	return kept
}

func TestPartialChildKeepsWhatOthersWroteAndLosesWhatTheHookDropped(t *testing.T) {
	w := newWorld(t).run(always(answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a, labels: {mine: "1"}}, spec: {color: red, note: hello}}`)))
	w.parent("p", nil)
	w.eventually("the child exists", func() bool { return w.get(parts, "a") != nil })
	w.patch(parts, "a", `{"metadata":{"annotations":{"foreign":"yes"}},"spec":{"active":false}}`)
	w.quiet()
	w.onSync(always(answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {color: blue}}`)))
	w.applier.Enqueue(w.namespace, "p")
	w.quiet()
	a := w.get(parts, "a")
	want := map[string]any{"color": "blue", "active": false, "size": int64(3)}
	if diff := cmp.Diff(want, a.Object["spec"]); diff != "" {
		t.Error(diff)
	}
	if a.GetAnnotations()["foreign"] != "yes" || a.GetLabels()["mine"] != "" || a.GetLabels()["controller-uid"] == "" {
		t.Errorf("annotations %v, labels %v", a.GetAnnotations(), a.GetLabels())
	}
	if len(a.GetOwnerReferences()) != 1 {
		t.Errorf("owners %v", a.GetOwnerReferences())
	}
}

func TestStatement29FieldsThatMetacontrollerWroteDisappearWhenDropped(t *testing.T) {
	w := newWorld(t)
	parent := w.parent("p", nil)
	yes := true
	part := object("exp.dev/v1", "Part", "a", map[string]any{"color": "red", "note": "from before"})
	part.SetLabels(map[string]string{"controller-uid": string(parent.GetUID())})
	part.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "exp.dev/v1", Kind: "Train", Name: "p", UID: parent.GetUID(), Controller: &yes, BlockOwnerDeletion: &yes}})
	if _, err := server.client.Resource(parts).Namespace(w.namespace).Create(t.Context(), part, metav1.CreateOptions{FieldManager: "metacontroller"}); err != nil {
		t.Fatal(err)
	}
	w.run(always(answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {color: red}}`)))
	w.eventually("the dropped field is gone", func() bool { return field(w.get(parts, "a"), "spec", "note") == "" })
	if a := w.get(parts, "a"); field(a, "spec", "color") != "red" || len(a.GetOwnerReferences()) != 1 {
		t.Errorf("the rest suffered: %v", a.Object)
	}
}

func TestStatement28DriftIsRepaired(t *testing.T) {
	w := newWorld(t).run(always(answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a, labels: {mine: "1"}}, spec: {color: red}}`)))
	w.parent("p", nil)
	w.quiet()
	w.patch(parts, "a", `{"spec":{"color":"green"}}`)
	w.eventually("the spec is repaired", func() bool { return field(w.get(parts, "a"), "spec", "color") == "red" })
	w.quiet()
	w.patch(parts, "a", `{"metadata":{"labels":{"mine":null}}}`)
	w.eventually("the label is repaired", func() bool { return w.get(parts, "a").GetLabels()["mine"] == "1" })
	if requests := w.quiet(); len(requests) != 1 {
		t.Errorf("one repair took %v", requests)
	}
}

func TestStatement32ServicePortsOfOneNumber(t *testing.T) {
	service := `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: None, ports: [{name: u, port: 53, protocol: UDP}, {name: t, port: 53, protocol: TCP}%s]}}`
	w := newWorld(t).run(always(answer("", fmt.Sprintf(service, ""))), func(c *applier.CompositeController) {
		c.Spec.ChildResources[0].Resource = applier.Resource{APIVersion: "v1", Resource: "services"}
	})
	w.parent("p", nil)
	w.quiet()
	w.onSync(always(answer("", fmt.Sprintf(service, ", {name: m, port: 9153}"))))
	w.applier.Enqueue(w.namespace, "p")
	w.quiet()
	ports, _, _ := unstructured.NestedSlice(w.get(services, "a").Object, "spec", "ports")
	if len(ports) != 3 {
		t.Errorf("ports are %v", ports)
	}
	if idle := w.quiet(); len(idle) > 0 {
		t.Errorf("idle requests: %v", idle)
	}
}

func TestStatement25BadAnswersApplyNothing(t *testing.T) {
	good := `{apiVersion: v1, kind: ConfigMap, metadata: {name: good}}`
	for name, c := range map[string]struct {
		bad  string
		want string
	}{
		"no object":       {`[1]`, "children[1]: want an object, got"},
		"no name":         {`{apiVersion: v1, kind: ConfigMap}`, "children[1].metadata.name: missing"},
		"generated name":  {`{apiVersion: v1, kind: ConfigMap, metadata: {generateName: a-}}`, "children[1].metadata.name: missing: generateName"},
		"null child":      {`null`, "children[1]: want an object, got null"},
		"no kind":         {`{apiVersion: v1, metadata: {name: a}}`, "children[1].kind: missing"},
		"duplicate":       {good, "children[1]: ConfigMap.v1 NS/good occurs twice"},
		"undeclared kind": {`{apiVersion: v1, kind: Secret, metadata: {name: a}}`, "kind not declared in childResources, which are ConfigMap.v1, Part.exp.dev/v1"},
		"other namespace": {`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}`, "in another namespace than its parent"},
		"other label":     {`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {controller-uid: x}}}`, "its labels do not match the parent's selector"},
		"label a number":  {`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {x: 1}}}`, "labels"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).run(always(answer(`{phase: Bad}`, good, c.bad)))
			w.parent("p", nil)
			want := strings.ReplaceAll(c.want, "NS", w.namespace)
			w.eventually("it is refused: "+want, func() bool { return strings.Contains(w.logs.String(), want) })
			if w.get(configMaps, "good") != nil || field(w.get(trains, "p"), "status", "phase") != "" {
				t.Error("something of a bad answer was applied")
			}
		})
	}
}

func TestStatement25AnswersThatAreNoneApplyNothing(t *testing.T) {
	for name, c := range map[string]struct {
		answer *contract.SyncResponse
		want   string
	}{
		"no response":        {nil, "sync hook: no response"},
		"status a list":      {&contract.SyncResponse{Status: rawYAML(`[1]`), Children: []json.RawMessage{rawYAML(configMapA)}}, "status: "},
		"status no JSON":     {&contract.SyncResponse{Status: json.RawMessage(`{"phase":`), Children: []json.RawMessage{rawYAML(configMapA)}}, "status: "},
		"child no JSON":      {&contract.SyncResponse{Children: []json.RawMessage{rawYAML(configMapA), json.RawMessage(`{"apiVersion":"v1",`)}}, "children[1]: "},
		"child of no bytes":  {&contract.SyncResponse{Children: []json.RawMessage{rawYAML(configMapA), nil}}, "children[1]: "},
		"metadata a text":    {answer("", configMapA, `{apiVersion: v1, kind: ConfigMap, metadata: a}`), "children[1]: "},
		"annotation a list":  {answer("", configMapA, `{apiVersion: v1, kind: ConfigMap, metadata: {name: b, annotations: {x: [1]}}}`), "children[1]: ConfigMap.v1 NS/b: "},
		"annotations a text": {answer("", configMapA, `{apiVersion: v1, kind: ConfigMap, metadata: {name: b, annotations: x}}`), "children[1]: ConfigMap.v1 NS/b: "},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
				if parentName(r) == "p" {
					return c.answer, nil
				}
				return answer(`{phase: Fine}`), nil
			})
			w.parent("p", nil)
			want := strings.ReplaceAll(c.want, "NS", w.namespace)
			w.eventually("it is refused: "+want, func() bool { return strings.Contains(w.logs.String(), want) })
			if w.get(configMaps, "a") != nil || len(field(w.get(trains, "p"), "status")) > 0 {
				t.Error("something of it was applied")
			}
			w.parent("other", nil)
			w.eventually("another parent is synced", func() bool { return field(w.get(trains, "other"), "status", "phase") == "Fine" })
		})
	}
}

func TestStatement22FailingChildStopsNeitherTheOthersNorTheStatus(t *testing.T) {
	w := newWorld(t).run(always(answer(`{phase: Running}`,
		`{apiVersion: exp.dev/v1, kind: Part, metadata: {name: bad}, spec: {color: 7}}`,
		`{apiVersion: exp.dev/v1, kind: Part, metadata: {name: good}, spec: {color: red}}`,
		`{apiVersion: exp.dev/v1, kind: Part, metadata: {name: worse}, spec: {size: many}}`)))
	w.parent("p", nil)
	w.eventually("the rest is done", func() bool {
		return w.get(parts, "good") != nil && field(w.get(trains, "p"), "status", "phase") == "Running"
	})
	w.eventually("one failure names both", func() bool {
		for line := range strings.Lines(w.logs.String()) {
			if strings.Contains(line, "Part.exp.dev/v1 "+w.namespace+"/bad: creating:") && strings.Contains(line, "Part.exp.dev/v1 "+w.namespace+"/worse: creating:") {
				return true
			}
		}
		return false
	})
}

func TestUnreachableFieldsCauseOneWrite(t *testing.T) {
	// The schema prunes fields that it does not know, in children and status.
	w := newWorld(t).run(always(answer(`{phase: Running, pruned: yes}`, `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {color: red, pruned: yes}}`)))
	w.parent("p", nil)
	w.quiet()
	for range 5 {
		w.applier.Enqueue(w.namespace, "p")
	}
	if idle := w.quiet(); len(idle) > 0 {
		t.Errorf("idle requests: %v", idle)
	}
	w.patch(parts, "a", `{"metadata":{"annotations":{"touch":"1"}}}`)
	if idle := w.quiet(); len(idle) > 0 {
		t.Errorf("requests after a foreign change: %v", idle)
	}
}

func TestStatement09ResyncAfterIsOneShotAndFractional(t *testing.T) {
	w := newWorld(t)
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		response := answer("")
		if w.syncs.Load() == 1 {
			response.ResyncAfterSeconds = 0.2
		}
		return response, nil
	})
	w.parent("p", nil)
	w.eventually("it is synced again", func() bool { return w.syncs.Load() >= 2 })
	w.quiet()
	n := w.syncs.Load()
	w.quiet()
	if w.syncs.Load() != n {
		t.Error("a one-shot resync repeats")
	}
}

func TestStatement09EarliestResyncWins(t *testing.T) {
	for name, delays := range map[string][2]float64{"the earlier one first": {1, 3600}, "the later one first": {3600, 0.5}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var second atomic.Int64
			w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
				response := answer("")
				switch parentAnnotation(r, "n") {
				case "1":
					response.ResyncAfterSeconds = delays[0]
				case "2":
					response.ResyncAfterSeconds = delays[1]
					second.Add(1)
				}
				return response, nil
			})
			w.parent("p", nil)
			w.quiet()
			w.patch(trains, "p", `{"metadata":{"annotations":{"n":"1"}}}`)
			w.eventually("the first delay runs", func() bool { return w.metric("rtj_applier_remembered", "of", "alarms") == 1 })
			w.patch(trains, "p", `{"metadata":{"annotations":{"n":"2"}}}`)
			w.eventually("the sync that asks for the second delay is followed by another", func() bool { return second.Load() >= 2 })
		})
	}
}
