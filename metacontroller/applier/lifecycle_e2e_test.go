//go:build e2e

package applier_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier"
)

func (w *world) finalizer() string { return "metacontroller.io/compositecontroller-" + w.namespace }

// drained finalizes once no child is left, and wants none.
func drained(r *contract.SyncRequest) (*contract.SyncResponse, error) {
	return &contract.SyncResponse{Finalized: r.Children.Len() == 0}, nil
}

func TestStatement16FinalizerIsAddedBeforeChildrenAndRemovedWhenFinalized(t *testing.T) {
	w := newWorld(t)
	w.finalize = drained
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		if !strings.Contains(string(r.Parent), w.finalizer()) {
			t.Error("the hook was asked before the finalizer was there")
		}
		return answer("", configMapA), nil
	}, withFinalize)
	w.parent("p", nil)
	w.eventually("the child exists", func() bool { return w.get(configMaps, "a") != nil })
	if got := w.get(trains, "p").GetFinalizers(); !slices.Equal(got, []string{w.finalizer()}) {
		t.Errorf("finalizers %v", got)
	}
	w.delete(trains, "p")
	w.eventually("child and parent are gone", func() bool { return w.get(configMaps, "a") == nil && w.get(trains, "p") == nil })
}

func TestStatement33ParentStaysUntilItsChildrenAreSeenToBeGone(t *testing.T) {
	w := newWorld(t)
	// A hook that says finalized at once, without looking.
	w.finalize = func(*contract.SyncRequest) (*contract.SyncResponse, error) {
		return &contract.SyncResponse{Finalized: true}, nil
	}
	w.run(always(answer("", configMapA)), withFinalize)
	w.parent("p", nil)
	w.eventually("the child exists", func() bool { return w.get(configMaps, "a") != nil })
	w.patch(configMaps, "a", `{"metadata":{"finalizers":["example.dev/hold"]}}`)
	w.quiet()
	w.delete(trains, "p")
	w.eventually("the child is being deleted", func() bool { return w.get(configMaps, "a").GetDeletionTimestamp() != nil })
	w.quiet()
	if w.get(trains, "p") == nil {
		t.Error("the parent went before its child")
	}
	w.patch(configMaps, "a", `{"metadata":{"finalizers":null}}`)
	w.eventually("the parent is gone", func() bool { return w.get(trains, "p") == nil })
}

func TestFinalizerIsRemovedWhenTheHookIsDropped(t *testing.T) {
	w := newWorld(t)
	w.finalize = drained
	w.run(always(answer("")), withFinalize)
	w.parent("p", nil)
	w.eventually("the finalizer is there", func() bool { return len(w.get(trains, "p").GetFinalizers()) == 1 })
	w.stop()
	w.run(always(answer("")))
	w.eventually("the finalizer is removed", func() bool { return len(w.get(trains, "p").GetFinalizers()) == 0 })
}

func TestStatement17GarbageCollectorsFinalizerKeepsChildrenUnmanaged(t *testing.T) {
	w := newWorld(t)
	w.finalize = func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		return answer(`{phase: Finalizing}`, `{apiVersion: v1, kind: ConfigMap, metadata: {name: new}}`), nil
	}
	w.run(always(answer("")), withFinalize)
	w.parent("p", nil)
	w.quiet()
	orphan := metav1.DeletePropagationOrphan
	if err := server.client.Resource(trains).Namespace(w.namespace).Delete(t.Context(), "p", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
		t.Fatal(err)
	}
	// The garbage collector may take its finalizer off at once; as long as it is
	// there, nothing is created.
	w.eventually("finalize is called", func() bool { return w.finalizes.Load() > 0 })
	w.eventually("the garbage collector is done", func() bool {
		return !slices.Contains(w.get(trains, "p").GetFinalizers(), metav1.FinalizerOrphanDependents)
	})
	w.mu.Lock()
	w.finalize = drained
	w.mu.Unlock()
	w.patch(trains, "p", `{"metadata":{"annotations":{"touch":"1"}}}`)
	w.eventually("the parent is gone", func() bool { return w.get(trains, "p") == nil })
}

func TestStatement18FinalizeWhenNoLongerSelected(t *testing.T) {
	w := newWorld(t)
	w.finalize = drained
	w.run(always(answer("", configMapA)), withFinalize)
	w.parent("p", nil)
	w.eventually("the child exists", func() bool { return w.get(configMaps, "a") != nil })
	w.patch(trains, "p", `{"metadata":{"labels":{"world":"another"}}}`)
	w.eventually("child and finalizer are gone", func() bool {
		return w.get(configMaps, "a") == nil && len(w.get(trains, "p").GetFinalizers()) == 0
	})
	n := w.syncs.Load() + w.finalizes.Load()
	w.patch(trains, "p", `{"spec":{"x":1}}`)
	w.quiet()
	if w.syncs.Load()+w.finalizes.Load() != n {
		t.Error("a parent that is not selected is synced")
	}
}

func TestTerminatingParentWithoutFinalizeHookKeepsItsChildren(t *testing.T) {
	w := newWorld(t).run(always(answer(`{phase: One}`, configMapA)))
	w.parent("p", nil)
	w.quiet()
	w.patch(trains, "p", `{"metadata":{"finalizers":["example.dev/hold"]}}`)
	w.delete(trains, "p")
	w.quiet() // the cache shows that the parent is terminating
	w.onSync(always(answer(`{phase: Two}`)))
	w.applier.Enqueue(w.namespace, "p")
	w.eventually("the status is written", func() bool { return field(w.get(trains, "p"), "status", "phase") == "Two" })
	if w.get(configMaps, "a") == nil {
		t.Error("a child of a terminating parent was deleted")
	}
	w.patch(trains, "p", `{"metadata":{"finalizers":null}}`)
}

func TestStatement08Status(t *testing.T) {
	w := newWorld(t).run(always(answer(`{phase: Running, message: hello}`)))
	w.parent("p", nil)
	w.eventually("the status is written", func() bool { return field(w.get(trains, "p"), "status", "message") == "hello" })
	w.quiet()
	w.onSync(always(answer(`{phase: Running, observedGeneration: 77}`)))
	w.patch(trains, "p", `{"spec":{"x":1}}`)
	w.eventually("the status is replaced", func() bool {
		p := w.get(trains, "p")
		return field(p, "status", "message") == "" && field(p, "status", "phase") == "Running" && field(p, "status", "observedGeneration") == "2"
	})
	w.onSync(always(answer(`null`)))
	w.applier.Enqueue(w.namespace, "p")
	w.eventually("only observedGeneration is left", func() bool {
		status, _ := w.get(trains, "p").Object["status"].(map[string]any)
		return len(status) == 1 && status["observedGeneration"] == int64(2)
	})
	w.quiet()
	w.applier.Enqueue(w.namespace, "p")
	if idle := w.quiet(); len(idle) > 0 {
		t.Errorf("an unchanged status was written: %v", idle)
	}
}

func TestStatusConflictIsDecidedAgain(t *testing.T) {
	w := newWorld(t)
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		var p struct{ Spec struct{ Want string } }
		if err := json.Unmarshal(r.Parent, &p); err != nil {
			return nil, err
		}
		return answer(`{phase: "` + p.Spec.Want + `"}`), nil
	})
	w.parent("p", map[string]any{"want": "one"})
	w.quiet()
	raced := false
	w.requests.hook(func(r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/trains/p/status") {
			return
		}
		if !raced {
			raced = true
			w.patch(trains, "p", `{"spec":{"want":"three"}}`)
		} else if phase := field(w.get(trains, "p"), "status", "phase"); phase != "one" {
			t.Errorf("a status that was decided upon an older parent was written: %s", phase)
		}
	})
	w.patch(trains, "p", `{"spec":{"want":"two"}}`)
	w.eventually("the newest is what stands", func() bool { return field(w.get(trains, "p"), "status", "phase") == "three" })
	if !raced {
		t.Error("no race was run")
	}
}

func TestStatement23IgnoreStatusChanges(t *testing.T) {
	w := newWorld(t).run(always(answer("")), func(c *applier.CompositeController) {
		yes, period := true, int32(1)
		c.Spec.ParentResource.IgnoreStatusChanges = &yes
		c.Spec.ResyncPeriodSeconds = &period
	})
	w.parent("p", nil)
	w.eventually("resync ticks sync", func() bool { return w.syncs.Load() >= 3 })
}

func TestStatement24StatusOnlyChangesSyncOnlyIfAskedFor(t *testing.T) {
	for _, ignore := range []bool{true, false} {
		t.Run(fmt.Sprint(ignore), func(t *testing.T) {
			w := newWorld(t)
			// Leaves the status as it is.
			w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
				var p struct{ Status json.RawMessage }
				if err := json.Unmarshal(r.Parent, &p); err != nil {
					return nil, err
				}
				return &contract.SyncResponse{Status: p.Status}, nil
			}, func(c *applier.CompositeController) { c.Spec.ParentResource.IgnoreStatusChanges = &ignore })
			w.parent("p", nil)
			w.quiet()
			n := w.syncs.Load()
			w.patch(trains, "p", `{"status":{"phase":"Touched"}}`, "status")
			w.quiet()
			if synced := w.syncs.Load() > n; synced == ignore {
				t.Errorf("synced %v", synced)
			}
			n = w.syncs.Load()
			w.patch(trains, "p", `{"metadata":{"annotations":{"a":"b"}}}`)
			w.eventually("an annotation syncs", func() bool { return w.syncs.Load() > n })
		})
	}
}

func TestStatement20RelatedObjects(t *testing.T) {
	w := newWorld(t)
	w.create(configMaps, w.namespace, labelled("one", "role", "input"))
	w.create(configMaps, w.namespace, labelled("two", "role", "other"))
	w.customize = func(r *contract.CustomizeRequest) (*contract.CustomizeResponse, error) {
		return &contract.CustomizeResponse{RelatedResources: []contract.RelatedResourceRule{
			{APIVersion: "v1", Resource: "configmaps", Namespace: w.namespace, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "input"}}},
			{APIVersion: "exp.dev/v1", Resource: "parts", Namespace: w.namespace, Names: []string{"named"}},
			{APIVersion: "v1", Resource: "namespaces", LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpIn, Values: []string{w.namespace}}}}},
		}}, nil
	}
	related := func(r *contract.SyncRequest) string {
		var keys []string
		for kind, objects := range r.Related {
			keys = append(keys, kind)
			for key := range objects {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		return strings.Join(keys, " ")
	}
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		return answer(`{message: "` + related(r) + `"}`), nil
	}, withCustomize)
	w.parent("p", nil)
	expect := func(want ...string) {
		t.Helper()
		slices.Sort(want)
		w.eventually(fmt.Sprintf("the hook sees %v", want), func() bool {
			return field(w.get(trains, "p"), "status", "message") == strings.Join(want, " ")
		})
	}
	kinds := []string{"ConfigMap.v1", "Namespace.v1", "Part.exp.dev/v1", w.namespace}
	expect(append(kinds, w.namespace+"/one")...)
	w.create(parts, w.namespace, object("exp.dev/v1", "Part", "named", nil))
	expect(append(kinds, w.namespace+"/one", w.namespace+"/named")...)
	w.patch(configMaps, "two", `{"metadata":{"labels":{"role":"input"}}}`)
	expect(append(kinds, w.namespace+"/one", w.namespace+"/two", w.namespace+"/named")...)
	w.patch(configMaps, "one", `{"metadata":{"labels":{"role":null}}}`)
	expect(append(kinds, w.namespace+"/two", w.namespace+"/named")...)
	w.delete(parts, "named")
	expect(append(kinds, w.namespace+"/two")...)

	n, asked := w.syncs.Load(), w.customs.Load()
	w.quiet()
	w.create(configMaps, w.namespace, labelled("three", "role", "other"))
	w.create(parts, w.namespace, object("exp.dev/v1", "Part", "unnamed", nil))
	w.quiet()
	if got := w.syncs.Load() - n; got > 1 {
		t.Errorf("%d syncs for objects that no rule selects", got)
	}
	w.patch(trains, "p", `{"metadata":{"annotations":{"a":"b"}}}`)
	w.quiet()
	if w.customs.Load() != asked || asked != 1 {
		t.Errorf("customize was asked %d times, then %d times for the same generation", asked, w.customs.Load()-asked)
	}
	w.patch(trains, "p", `{"spec":{"x":1}}`)
	w.eventually("customize is asked for a new generation", func() bool { return w.customs.Load() == 2 })
}

func TestStatement06FailedHookAppliesNothingAndIsRetried(t *testing.T) {
	w := newWorld(t)
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		if w.syncs.Load() < 4 {
			return answer(`{phase: Bad}`, configMapA), errors.New("cannot decide today")
		}
		return answer(`{phase: Good}`), nil
	})
	w.parent("p", nil)
	w.eventually("it is retried until it succeeds", func() bool {
		phase := field(w.get(trains, "p"), "status", "phase")
		if phase == "Bad" || w.get(configMaps, "a") != nil {
			t.Fatal("a failed answer was applied")
		}
		return phase == "Good"
	})
	if !strings.Contains(w.logs.String(), "cannot decide today") {
		t.Error("the failure is not logged")
	}
}

func TestHookThatHangsIsCutOff(t *testing.T) {
	w := newWorld(t)
	w.block = true
	w.run(always(answer("")), func(c *applier.CompositeController) {
		c.Spec.Hooks.Sync.Webhook = &applier.Webhook{Timeout: &metav1.Duration{Duration: 50 * time.Millisecond}}
	})
	w.parent("p", nil)
	w.eventually("the failure is logged", func() bool { return strings.Contains(w.logs.String(), "sync hook: context deadline exceeded") })
}

func TestStatement38PoisonParentDoesNotStopTheOthers(t *testing.T) {
	w := newWorld(t)
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		switch {
		case strings.Contains(string(r.Parent), `"name":"panics"`):
			var m map[string]int
			m["x"] = 1
		case strings.Contains(string(r.Parent), `"name":"fails"`):
			return nil, errors.New("always")
		case strings.Contains(string(r.Parent), `"name":"rejected"`):
			return answer("", `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: bad}, spec: {color: 7}}`), nil
		}
		return answer(`{phase: Fine}`), nil
	})
	for _, name := range []string{"panics", "fails", "rejected"} {
		w.parent(name, nil)
	}
	for i := range 50 {
		w.parent(fmt.Sprintf("p%d", i), nil)
	}
	w.eventually("the others are synced", func() bool {
		list, err := server.client.Resource(trains).Namespace(w.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		fine := 0
		for _, p := range list.Items {
			if field(&p, "status", "phase") == "Fine" {
				fine++
			}
		}
		return fine == 50
	})
	if !strings.Contains(w.logs.String(), "assignment to entry in nil map") {
		t.Error("the panic is not logged")
	}
}

func TestRestartContinuesWithoutWrites(t *testing.T) {
	w := newWorld(t)
	hook := func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		return &contract.SyncResponse{Status: rawYAML(`{phase: Running}`), Children: []json.RawMessage{edit(r, "Part.exp.dev/v1", w.namespace+"/a",
			`{apiVersion: exp.dev/v1, kind: Part, metadata: {name: a}, spec: {color: red, items: [{name: x}]}}`, func(map[string]any) {})}}, nil
	}
	w.run(hook, complete)
	w.parent("p", nil)
	w.quiet()
	w.stop()
	w.run(hook, complete)
	if got := w.quiet(); len(got) > 0 {
		t.Errorf("requests after a restart: %v", got)
	}
}

// An applier that decides again before its caches show what it has just written
// would create, count or start things twice.
func TestOwnWritesAreSeenBeforeTheNextDecision(t *testing.T) {
	w := newWorld(t)
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		// One more child for each decision.
		response := answer("")
		for _, o := range r.Children.Kind("ConfigMap.v1") {
			response.Children = append(response.Children, o)
		}
		if n := len(response.Children); n < 3 {
			response.Children = append(response.Children, rawYAML(fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: c%d}}`, n)))
		}
		return response, nil
	})
	w.requests.delay(200 * time.Millisecond)
	w.parent("p", nil)
	for range 100 {
		w.applier.Enqueue(w.namespace, "p")
		time.Sleep(10 * time.Millisecond)
	}
	w.eventually("all children exist", func() bool { return w.get(configMaps, "c2") != nil })
	w.quiet()
	w.requests.delay(0)
	posts := 0
	for _, r := range w.requests.all {
		if strings.HasPrefix(r, "POST") {
			posts++
		}
	}
	if posts != 3 {
		t.Errorf("3 children took %d creations: %v", posts, w.requests.all)
	}
}

func TestRunStopsEverythingItStarted(t *testing.T) {
	before := runtime.NumGoroutine()
	w := newWorld(t)
	w.customize = func(*contract.CustomizeRequest) (*contract.CustomizeResponse, error) {
		return &contract.CustomizeResponse{RelatedResources: []contract.RelatedResourceRule{{APIVersion: "v1", Resource: "services"}}}, nil
	}
	w.run(always(answer("", configMapA)), withCustomize)
	w.parent("p", nil)
	w.quiet()
	w.stop()
	// Idle connections of the HTTP client linger; they are no goroutines of ours.
	w.eventually("the goroutines are gone", func() bool {
		buffer := make([]byte, 1<<20)
		stacks := string(buffer[:runtime.Stack(buffer, true)])
		return !strings.Contains(stacks, "metacontroller/applier.") && !strings.Contains(stacks, "client-go/tools/cache") || runtime.NumGoroutine() <= before
	})
}

func TestRunRefusesWhatTheServerDoesNotOffer(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*applier.CompositeController)
		want   string
	}{
		"no such parent": {func(c *applier.CompositeController) { c.Spec.ParentResource.Resource.Resource = "Train" },
			`spec.parentResource: the API server has no resource "Train" in exp.dev/v1; did you mean "trains"?`},
		"no such group":        {func(c *applier.CompositeController) { c.Spec.ParentResource.APIVersion = "no.dev/v1" }, "spec.parentResource: resources of no.dev/v1:"},
		"no status":            {func(c *applier.CompositeController) { c.Spec.ParentResource.Resource.Resource = "bares" }, "bares has no status subresource"},
		"no such child":        {func(c *applier.CompositeController) { c.Spec.ChildResources[0].Resource.Resource = "configs" }, `spec.childResources[0]: the API server has no resource "configs" in v1`},
		"cluster-scoped child": {func(c *applier.CompositeController) { c.Spec.ChildResources[0].Resource.Resource = "namespaces" }, "namespaces are cluster-scoped, and parents in a namespace cannot own them"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := applier.New(applier.Options{Config: server.config, Controller: controller(t, "x", c.change), Hooks: &world{}})
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func labelled(name, key, value string) *unstructured.Unstructured {
	o := object("v1", "ConfigMap", name, nil)
	o.SetLabels(map[string]string{key: value})
	return o
}
