//go:build e2e

package applier_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
		return answer(`{phase: Finalizing}`, configMap("new")), nil
	}
	w.run(always(answer("", part("a", "red"), part("b", "red"))), withFinalize)
	w.parent("p", nil)
	w.eventually("the children exist", func() bool { return w.get(parts, "a") != nil && w.get(parts, "b") != nil })
	// A child that cannot go keeps the garbage collector's finalizer on the parent.
	w.patch(parts, "a", `{"metadata":{"finalizers":["example.dev/hold"]}}`)
	w.quiet()
	foreground := metav1.DeletePropagationForeground
	if err := server.client.Resource(trains).Namespace(w.namespace).Delete(t.Context(), "p", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the finalize hook's status is written", func() bool { return field(w.get(trains, "p"), "status", "phase") == "Finalizing" })
	w.quiet()
	if !slices.Contains(w.get(trains, "p").GetFinalizers(), metav1.FinalizerDeleteDependents) {
		t.Fatal("the garbage collector is done already, so this shows nothing")
	}
	for _, r := range w.requests.all {
		if r == "POST configmaps" || strings.HasPrefix(r, "DELETE") {
			t.Errorf("the applier managed children: %s", r)
		}
	}
	w.mu.Lock()
	w.finalize = drained
	w.mu.Unlock()
	w.patch(parts, "a", `{"metadata":{"finalizers":null}}`)
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
	for _, none := range []string{`null`, ``} {
		w.onSync(always(answer(`{phase: Again}`)))
		w.applier.Enqueue(w.namespace, "p")
		w.eventually("there is a status", func() bool { return field(w.get(trains, "p"), "status", "phase") == "Again" })
		w.quiet()
		w.onSync(always(answer(none)))
		w.applier.Enqueue(w.namespace, "p")
		w.eventually(fmt.Sprintf("only observedGeneration is left after status %q", none), func() bool {
			status, _ := w.get(trains, "p").Object["status"].(map[string]any)
			return len(status) == 1 && status["observedGeneration"] == int64(2)
		})
	}
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

func TestStatement23ResyncTicksComeInSpiteOfIgnoreStatusChanges(t *testing.T) {
	w := newWorld(t).run(always(answer("")), func(c *applier.CompositeController) {
		yes, period := true, int32(1)
		c.Spec.ParentResource.IgnoreStatusChanges = &yes
		c.Spec.ResyncPeriodSeconds = &period
	})
	w.parent("p", nil)
	w.eventually("resync ticks sync", func() bool { return w.syncs.Load() >= 3 })
}

func TestStatement23StatusChangesOfTheParent(t *testing.T) {
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

func TestStatement24ChangesOfChildrenSyncTheirParent(t *testing.T) {
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
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"an orphan that matches", func() {
			w.create(configMaps, w.namespace, labelled("a", "controller-uid", string(parent.GetUID())))
		}},
		{"a change", func() { w.patch(configMaps, "a", `{"data":{"x":"2"}}`) }},
		{"a deletion", func() { w.delete(configMaps, "a") }},
	} {
		n := w.syncs.Load()
		step.do()
		w.eventually(step.what+" syncs the parent", func() bool { return w.syncs.Load() > n })
		w.quiet()
	}
}

// A list that replaces a broken watch repeats every object. What has not changed
// causes no sync, what has changed meanwhile does.
func TestStatement24RepeatedObjectsSyncNothing(t *testing.T) {
	w := newWorld(t).run(always(answer("", configMapA)))
	w.parent("p", nil)
	w.eventually("the child exists", func() bool { return w.get(configMaps, "a") != nil })
	w.quiet()
	n := w.syncs.Load()
	var relisted sync.Map
	w.requests.through(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		query := r.URL.Query()
		if query.Has("sendInitialEvents") || query.Has("limit") {
			relisted.Store(r.URL.Path, true)
		} else if _, done := relisted.Load(r.URL.Path); !done && query.Has("watch") {
			return gone(r), nil
		}
		return send()
	})
	w.requests.cut()
	for _, path := range []string{"/apis/exp.dev/v1/trains", "/api/v1/configmaps"} {
		w.eventually(path+" is listed again", func() bool { _, done := relisted.Load(path); return done })
	}
	w.patch(configMaps, "a", `{"metadata":{"annotations":{"touched":"yes"}}}`)
	w.eventually("the change syncs the parent", func() bool { return w.syncs.Load() > n })
	w.quiet()
	if got := w.syncs.Load() - n; got != 1 {
		t.Errorf("%d syncs for one change and two repetitions", got)
	}
}

// gone is the answer to a watch from a state that the API server has forgotten.
func gone(r *http.Request) *http.Response {
	return &http.Response{
		StatusCode: http.StatusGone, Status: "410 Gone", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"too old resource version","code":410}`)),
	}
}

func TestStatement21OneParentIsNeverSyncedTwiceAtOnce(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	running := map[string]bool{}
	atOnce := 0
	w.run(func(r *contract.SyncRequest) (*contract.SyncResponse, error) {
		name := parentName(r)
		mu.Lock()
		if running[name] {
			t.Errorf("%s is synced twice at once", name)
		}
		running[name] = true
		atOnce = max(atOnce, len(running))
		mu.Unlock()
		time.Sleep(20 * time.Millisecond)
		mu.Lock()
		delete(running, name)
		mu.Unlock()
		return answer(""), nil
	})
	for i := range 4 {
		w.parent(fmt.Sprintf("p%d", i), nil)
	}
	for range 20 {
		for i := range 4 {
			w.applier.Enqueue(w.namespace, fmt.Sprintf("p%d", i))
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.quiet()
	mu.Lock()
	defer mu.Unlock()
	if atOnce < 2 {
		t.Error("different parents are not synced in parallel")
	}
}
