//go:build e2e

package applier_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier"
)

const configMapA = `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: "1"}}`

func TestStatement13ChildIsCreatedOwnedAndDeleted(t *testing.T) {
	w := newWorld(t).run(always(answer(`{phase: Running}`, configMapA)))
	parent := w.parent("p", nil)
	w.eventually("the child exists", func() bool { return w.get(configMaps, "a") != nil })
	a := w.get(configMaps, "a")
	owners := a.GetOwnerReferences()
	if len(owners) != 1 || owners[0].UID != parent.GetUID() || !*owners[0].Controller || !*owners[0].BlockOwnerDeletion {
		t.Errorf("owners are %+v", owners)
	}
	if got := a.GetLabels()["controller-uid"]; got != string(parent.GetUID()) {
		t.Errorf("controller-uid is %q", got)
	}
	w.eventually("the status is written", func() bool {
		p := w.get(trains, "p")
		return field(p, "status", "phase") == "Running" && field(p, "status", "observedGeneration") == "1"
	})
	w.onSync(always(answer(`{phase: Done}`)))
	w.applier.Enqueue(w.namespace, "p")
	w.eventually("the child is deleted", func() bool { return w.get(configMaps, "a") == nil })
}

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
			if owned := string(entry.FieldsV1.Raw); strings.Contains(owned, "f:active") || strings.Contains(owned, "f:foreign") {
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
	w.patch(parts, "a", `{"metadata":{"labels":{"mine":null}}}`)
	w.eventually("the label is repaired", func() bool { return w.get(parts, "a").GetLabels()["mine"] == "1" })
}

func TestStatement41ChildThatIsGoneIsNotBroughtBackByAnUpdate(t *testing.T) {
	for name, changes := range map[string][]func(*applier.CompositeController){"partial": nil, "complete": {complete}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
				return answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {color: red}}`), nil
			}, changes...)
			w.parent("p", nil)
			w.quiet()
			w.onSync(always(answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {color: green}}`)))
			w.applier.Enqueue(w.namespace, "p")
			w.eventually("it is updated once", func() bool { return field(w.get(parts, "a"), "spec", "color") == "green" })
			w.quiet()
			// The child is deleted between the hook's answer and the write.
			w.onSync(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
				if r.Children.Get("Part.exp.dev/v1", w.namespace+"/a") == nil {
					return answer(""), nil // gone, and not wanted again
				}
				return answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {color: blue}}`), nil
			})
			deleted := false
			w.requests.hook(func(r *http.Request) {
				if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/parts/a") && !deleted {
					deleted = true
					w.delete(parts, "a")
				}
			})
			w.applier.Enqueue(w.namespace, "p")
			w.quiet()
			if !deleted {
				t.Fatal("the write did not happen")
			}
			if a := w.get(parts, "a"); a != nil {
				t.Errorf("it is back: %v", a.Object)
			}
		})
	}
}

func TestStatement41StaleViewDoesNotOverwrite(t *testing.T) {
	for name, changes := range map[string][]func(*applier.CompositeController){"partial": nil, "complete": {complete}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).run(always(answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {size: 3, items: [{name: "0", mode: auto}]}}`)), changes...)
			w.parent("p", nil)
			w.quiet()
			// Adds an item to what it sees. A list is replaced whole, so a write upon
			// an older list would undo the other's.
			w.onSync(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
				var o struct {
					Spec struct{ Items []struct{ Name string } }
				}
				if err := json.Unmarshal(r.Children.Get("Part.exp.dev/v1", w.namespace+"/a"), &o); err != nil {
					return nil, err
				}
				return answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {size: 3, items: [{name: "`+o.Spec.Items[0].Name+`", mode: auto}, {name: mine, mode: auto}]}}`), nil
			})
			raced := false
			w.requests.hook(func(r *http.Request) {
				if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/parts/a") && !raced {
					raced = true
					w.patch(parts, "a", `{"spec":{"items":[{"name":"1"}]}}`)
				}
			})
			w.applier.Enqueue(w.namespace, "p")
			w.eventually("its item is there", func() bool {
				items, _, _ := unstructured.NestedSlice(w.get(parts, "a").Object, "spec", "items")
				return len(items) == 2
			})
			if items := field(w.get(parts, "a"), "spec", "items"); !strings.Contains(items, "name:1") {
				t.Errorf("items are %s: the other write was undone", items)
			}
		})
	}
}

func TestStatement34ExistingObjectIsAConflict(t *testing.T) {
	w := newWorld(t)
	w.create(configMaps, w.namespace, object("v1", "ConfigMap", "a", nil))
	w.run(always(answer(`{phase: Running}`, configMapA, `{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}`)))
	w.parent("p", nil)
	w.eventually("the conflict is reported", func() bool {
		return strings.Contains(w.logs.String(), "ConfigMap.v1 "+w.namespace+"/a: exists already, and nothing controls it")
	})
	if a := w.get(configMaps, "a"); a.Object["data"] != nil || len(a.GetOwnerReferences()) > 0 {
		t.Errorf("it was overwritten: %v", a.Object)
	}
	if w.get(configMaps, "b") == nil || field(w.get(trains, "p"), "status", "phase") != "Running" {
		t.Error("the other child or the status waits for the conflict")
	}
}

func TestStatement10DeletionHasPreconditions(t *testing.T) {
	w := newWorld(t).run(always(answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {color: red}}`)))
	w.parent("p", nil)
	w.quiet()
	// The hook wants the child gone only while it is red.
	w.onSync(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		if raw := r.Children.Get("Part.exp.dev/v1", w.namespace+"/a"); strings.Contains(string(raw), "green") {
			return answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {color: green}}`), nil
		}
		return answer(""), nil
	})
	raced := false
	w.requests.hook(func(r *http.Request) {
		if r.Method == http.MethodDelete && !raced {
			raced = true
			w.patch(parts, "a", `{"spec":{"color":"green"}}`)
		}
	})
	w.applier.Enqueue(w.namespace, "p")
	w.quiet()
	if !raced || field(w.get(parts, "a"), "spec", "color") != "green" {
		t.Errorf("raced %v, child %v", raced, w.get(parts, "a"))
	}
}

func TestStatement11TerminatingChildIsLeftAloneUntilGone(t *testing.T) {
	w := newWorld(t)
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		return answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {color: red}}`), nil
	})
	w.parent("p", nil)
	w.quiet()
	w.patch(parts, "a", `{"metadata":{"finalizers":["example.dev/hold"]}}`)
	w.delete(parts, "a")
	w.quiet()
	w.onSync(always(answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {color: blue}}`)))
	w.applier.Enqueue(w.namespace, "p")
	if got := writesOnly(w.quiet()); len(got) > 0 {
		t.Errorf("requests for a terminating child: %v", got)
	}
	uid := w.get(parts, "a").GetUID()
	w.patch(parts, "a", `{"metadata":{"finalizers":null}}`)
	w.eventually("it is created anew", func() bool {
		a := w.get(parts, "a")
		return a != nil && a.GetUID() != uid && field(a, "spec", "color") == "blue"
	})
}

func TestStatement12UpdateStrategies(t *testing.T) {
	for _, c := range []struct {
		method  applier.UpdateMethod
		color   string
		sameUID bool
	}{{applier.OnDelete, "red", true}, {applier.InPlace, "blue", true}, {applier.Recreate, "blue", false}} {
		for name, changes := range map[string][]func(*applier.CompositeController){"partial": {method(c.method)}, "complete": {method(c.method), complete}} {
			t.Run(string(c.method)+"/"+name, func(t *testing.T) {
				w := newWorld(t).run(always(answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {color: red, size: 3}}`)), changes...)
				w.parent("p", nil)
				w.quiet()
				uid := w.get(parts, "a").GetUID()
				w.onSync(always(answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {color: blue, size: 3}}`)))
				w.applier.Enqueue(w.namespace, "p")
				w.quiet()
				w.quiet()
				a := w.get(parts, "a")
				if field(a, "spec", "color") != c.color || (a.GetUID() == uid) != c.sameUID {
					t.Errorf("color %q, same uid %v", field(a, "spec", "color"), a.GetUID() == uid)
				}
			})
		}
	}
}

func TestStatement31RecreateOnImmutableAndNotOnNotation(t *testing.T) {
	pods := "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: x, resources: {limits: {cpu: %q}}}]}}"
	asPods := func(c *applier.CompositeController) {
		c.Spec.ChildResources = []applier.ChildResource{{Resource: applier.Resource{APIVersion: "v1", Resource: "pods"}, UpdateStrategy: &applier.UpdateStrategy{Method: applier.Recreate}}}
	}
	w := newWorld(t).run(always(answer("", fmt.Sprintf(pods, "1000m"))), asPods)
	podResource := configMaps
	podResource.Resource = "pods"
	w.parent("p", nil)
	w.eventually("the pod exists", func() bool { return w.get(podResource, "a") != nil })
	w.quiet()
	uid := w.get(podResource, "a").GetUID()
	w.stop()
	w.run(always(answer("", fmt.Sprintf(pods, "1000m"))), asPods)
	w.quiet()
	if w.get(podResource, "a").GetUID() != uid {
		t.Error("recreated for the notation of a quantity, after a restart")
	}
	w.onSync(always(answer("", fmt.Sprintf(pods, "2"))))
	w.applier.Enqueue(w.namespace, "p")
	w.eventually("the pod is recreated for a change that is immutable", func() bool {
		p := w.get(podResource, "a")
		return p != nil && p.GetUID() != uid
	})
	if writes := w.quiet(); len(writes) > 8 {
		t.Errorf("a recreation took %d requests: %v", len(writes), writes)
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

func TestStatement15OrphanIsAdoptedAndMismatchReleased(t *testing.T) {
	w := newWorld(t)
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		response := answer("")
		for _, o := range r.Children.Kind("ConfigMap.v1") {
			response.Children = append(response.Children, o)
		}
		return response, nil
	})
	parent := w.parent("p", nil)
	w.quiet()
	orphan := object("v1", "ConfigMap", "orphan", nil)
	orphan.SetLabels(map[string]string{"controller-uid": string(parent.GetUID())})
	w.create(configMaps, w.namespace, orphan)
	w.eventually("the orphan is adopted", func() bool {
		owner := metav1.GetControllerOf(w.get(configMaps, "orphan"))
		return owner != nil && owner.UID == parent.GetUID()
	})
	w.quiet()
	w.patch(configMaps, "orphan", `{"metadata":{"labels":{"controller-uid":"another"}}}`)
	w.eventually("it is released", func() bool { return len(w.get(configMaps, "orphan").GetOwnerReferences()) == 0 })
}

func TestStatement14SpecSelector(t *testing.T) {
	w := newWorld(t).run(always(answer("", `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {of: p}}}`)), func(c *applier.CompositeController) {
		no := false
		c.Spec.GenerateSelector = &no
	})
	w.parent("bad", nil)
	w.eventually("the missing selector is reported", func() bool { return strings.Contains(w.logs.String(), "spec.selector is missing") })
	w.parent("p", map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"of": "p"}}})
	w.eventually("the child exists", func() bool { return w.get(configMaps, "a") != nil })
	if _, ok := w.get(configMaps, "a").GetLabels()["controller-uid"]; ok {
		t.Error("a label that nobody asked for")
	}
	orphan := object("v1", "ConfigMap", "orphan", nil)
	orphan.SetLabels(map[string]string{"of": "p"})
	w.create(configMaps, w.namespace, orphan)
	w.eventually("an orphan that is not desired is adopted and deleted", func() bool { return w.get(configMaps, "orphan") == nil })
}

func TestStatement22FailingChildStopsNeitherTheOthersNorTheStatus(t *testing.T) {
	w := newWorld(t).run(always(answer(`{phase: Running}`,
		`{apiVersion: exp.dev/v1, kind: Part, metadata: {name: bad}, spec: {color: 7}}`,
		`{apiVersion: exp.dev/v1, kind: Part, metadata: {name: good}, spec: {color: red}}`)))
	w.parent("p", nil)
	w.eventually("the rest is done", func() bool {
		return w.get(parts, "good") != nil && field(w.get(trains, "p"), "status", "phase") == "Running"
	})
	if !strings.Contains(w.logs.String(), "Part.exp.dev/v1 "+w.namespace+"/bad: creating:") {
		t.Error("the failing child is not named")
	}
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
