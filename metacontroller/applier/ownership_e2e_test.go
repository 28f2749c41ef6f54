//go:build e2e

package applier_test

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier"
)

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

func TestStatement19ChildWithoutNamespaceGetsItsParents(t *testing.T) {
	w := newWorld(t).run(always(answer("", configMapA, `{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: ""}}`)))
	w.parent("p", nil)
	w.eventually("the children are in the namespace of the parent", func() bool { return w.get(configMaps, "a") != nil && w.get(configMaps, "b") != nil })
}

func TestStatement19ClusterScopedParentHasNoNamespaceToGive(t *testing.T) {
	w := newWorld(t).run(always(answer("", configMapA)), ofFleets)
	fleet := w.fleet("f", nil)
	w.eventually("a child without a namespace is refused", func() bool {
		return strings.Contains(w.logs.String(), "children[0]: ConfigMap.v1 a: metadata.namespace is missing")
	})
	w.onSync(always(answer("", `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: `+w.namespace+`}}`)))
	w.applier.Enqueue("", fleet.GetName())
	w.eventually("a child with one is created there", func() bool {
		owner := controllerOf(w.get(configMaps, "a"))
		return owner != nil && owner.UID == fleet.GetUID()
	})
}

func TestStatement14SpecSelector(t *testing.T) {
	w := newWorld(t).run(always(answer("", `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {of: p}}}`)), withSpecSelector)
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

func TestStatement14LabelsThatDoNotMatchFailBeforeAnyWrite(t *testing.T) {
	w := newWorld(t).run(always(answer(`{phase: Bad}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: good, labels: {of: p}}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: bad, labels: {of: q}}}`)), withSpecSelector)
	w.parent("p", map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"of": "p"}}})
	w.eventually("it is refused", func() bool {
		return strings.Contains(w.logs.String(), "/bad: its labels do not match the parent's selector")
	})
	if writes := w.quiet(); len(writes) > 0 {
		t.Errorf("requests: %v", writes)
	}
}

func TestStatement14SelectorsOfEveryFormFindTheirOrphans(t *testing.T) {
	expression := func(key, operator string, values ...any) map[string]any {
		e := map[string]any{"key": key, "operator": operator}
		if len(values) > 0 {
			e["values"] = values
		}
		return map[string]any{"matchExpressions": []any{e}}
	}
	for name, selector := range map[string]map[string]any{
		"labels":    {"matchLabels": map[string]any{"of": "p", "role": "x"}},
		"in":        expression("of", "In", "q", "p"),
		"exists":    expression("role", "Exists"),
		"not in":    expression("of", "NotIn", "q", "r"),
		"absent":    expression("foreign", "DoesNotExist"),
		"two of in": {"matchExpressions": []any{expression("of", "In", "p", "q")["matchExpressions"].([]any)[0], expression("role", "In", "x", "y", "z")["matchExpressions"].([]any)[0]}},
	} {
		for scope, change := range map[string][]func(*applier.CompositeController){"namespaced": {withSpecSelector}, "cluster-scoped": {withSpecSelector, ofFleets}} {
			t.Run(name+"/"+scope, func(t *testing.T) {
				w := newWorld(t)
				w.run(keepConfigMaps, append(change, func(c *applier.CompositeController) { c.Spec.ChildResources = c.Spec.ChildResources[:1] })...)
				foreign := object("v1", "ConfigMap", "foreign", nil)
				foreign.SetLabels(map[string]string{"of": "r", "foreign": "yes"})
				w.create(configMaps, w.namespace, foreign)
				orphan := object("v1", "ConfigMap", "orphan", nil)
				orphan.SetLabels(map[string]string{"of": "p", "role": "x", "world": w.namespace})
				// Of another world's objects, which a cluster-scoped parent sees, none must match.
				requirement := map[string]any{"key": "world", "operator": "In", "values": []any{w.namespace}}
				spec := map[string]any{"selector": selector}
				if scope == "cluster-scoped" {
					expressions, _ := selector["matchExpressions"].([]any)
					spec = map[string]any{"selector": map[string]any{"matchLabels": selector["matchLabels"], "matchExpressions": append([]any{requirement}, expressions...)}}
					if spec["selector"].(map[string]any)["matchLabels"] == nil {
						delete(spec["selector"].(map[string]any), "matchLabels")
					}
					w.fleet("f", spec)
				} else {
					w.parent("p", spec)
				}
				w.quiet()
				w.create(configMaps, w.namespace, orphan)
				w.eventually("the orphan is adopted", func() bool { return controllerOf(w.get(configMaps, "orphan")) != nil })
				w.quiet()
				if controllerOf(w.get(configMaps, "foreign")) != nil {
					t.Error("what the selector does not match was adopted")
				}
			})
		}
	}
}

// keepConfigMaps is a hook that wants the ConfigMaps that there are.
func keepConfigMaps(r *contract.SyncRequest) (*contract.SyncResponse, error) {
	response := answer("")
	for _, o := range r.Children.Kind("ConfigMap.v1") {
		response.Children = append(response.Children, o)
	}
	return response, nil
}

func TestStatement15OrphanIsAdoptedAndMismatchReleased(t *testing.T) {
	w := newWorld(t)
	w.run(keepConfigMaps)
	parent := w.parent("p", nil)
	w.quiet()
	orphan := object("v1", "ConfigMap", "orphan", nil)
	orphan.SetLabels(map[string]string{"controller-uid": string(parent.GetUID())})
	w.create(configMaps, w.namespace, orphan)
	w.eventually("the orphan is adopted", func() bool {
		owner := controllerOf(w.get(configMaps, "orphan"))
		return owner != nil && owner.UID == parent.GetUID()
	})
	w.quiet()
	w.patch(configMaps, "orphan", `{"metadata":{"labels":{"controller-uid":"another"}}}`)
	w.eventually("it is released", func() bool { return len(w.get(configMaps, "orphan").GetOwnerReferences()) == 0 })
}

// The parent is deleted while it adopts: what it adopted then, the garbage
// collector would delete.
func TestStatement15AdoptionLooksAtTheLiveParent(t *testing.T) {
	w := newWorld(t).run(keepConfigMaps)
	parent := w.parent("p", nil)
	w.patch(trains, "p", `{"metadata":{"finalizers":["example.dev/hold"]}}`)
	w.quiet()
	rechecked := w.beforeFirst(http.MethodGet, "/trains/p", func() { w.delete(trains, "p") })
	w.create(configMaps, w.namespace, labelled("orphan", "controller-uid", string(parent.GetUID())))
	w.eventually("the parent is read past the cache", rechecked.Load)
	w.quiet()
	if controllerOf(w.get(configMaps, "orphan")) != nil {
		t.Error("a parent that is being deleted adopted")
	}
	w.patch(trains, "p", `{"metadata":{"finalizers":null}}`)
}

func TestStatement15TerminatingParentNeitherAdoptsNorReleases(t *testing.T) {
	w := newWorld(t)
	w.finalize = keepConfigMaps
	w.run(always(answer("", configMapA)), withFinalize)
	parent := w.parent("p", nil)
	w.eventually("the child exists", func() bool { return w.get(configMaps, "a") != nil })
	w.quiet()
	w.delete(trains, "p")
	w.quiet()
	w.create(configMaps, w.namespace, labelled("orphan", "controller-uid", string(parent.GetUID())))
	w.patch(configMaps, "a", `{"metadata":{"labels":{"controller-uid":"another"}}}`)
	w.applier.Enqueue(w.namespace, "p")
	w.quiet()
	if controllerOf(w.get(configMaps, "orphan")) != nil {
		t.Error("an orphan was adopted")
	}
	if controllerOf(w.get(configMaps, "a")) == nil {
		t.Error("a child was released")
	}
	w.delete(configMaps, "a")
	w.mu.Lock()
	w.finalize = drained
	w.mu.Unlock()
	w.applier.Enqueue(w.namespace, "p")
	w.eventually("the parent is gone", func() bool { return w.get(trains, "p") == nil })
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

func TestStatement34ChildOfAnotherParentIsAConflict(t *testing.T) {
	w := newWorld(t).run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		return answer("", `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {of: `+parentName(r)+`}}`), nil
	})
	first := w.parent("first", nil)
	w.eventually("the first one has it", func() bool { return w.get(configMaps, "a") != nil })
	w.parent("second", nil)
	w.eventually("the conflict is reported", func() bool {
		return strings.Contains(w.logs.String(), "ConfigMap.v1 "+w.namespace+"/a: exists already, and Train first (uid "+string(first.GetUID())+") controls it: it is left alone")
	})
	w.quiet()
	if a := w.get(configMaps, "a"); field(a, "data", "of") != "first" || metav1.GetControllerOf(a).UID != first.GetUID() {
		t.Errorf("it was taken: %v", a.Object)
	}
	if w.metric("rtj_applier_syncs_total", "result", "error") < 1 {
		t.Error("the conflict counts as a success")
	}
}
