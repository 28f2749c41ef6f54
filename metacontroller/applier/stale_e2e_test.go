//go:build e2e

package applier_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier"
)

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

func TestStatement10DeletionIsOfThisObjectAndInTheBackground(t *testing.T) {
	w := newWorld(t).run(always(answer("", part("a", "red"))))
	w.parent("p", nil)
	w.eventually("the child exists", func() bool { return w.get(parts, "a") != nil })
	w.patch(parts, "a", `{"metadata":{"finalizers":["example.dev/hold"]}}`)
	w.quiet()
	deletions := make(chan map[string]any, 100)
	w.requests.hook(func(r *http.Request) {
		if r.Method == http.MethodDelete {
			deletions <- bodyOf(r).Object
		}
	})
	w.onSync(always(answer("")))
	w.applier.Enqueue(w.namespace, "p")
	w.eventually("it is being deleted", func() bool { return w.get(parts, "a").GetDeletionTimestamp() != nil })
	for range 3 {
		w.quiet()
		w.applier.Enqueue(w.namespace, "p")
	}
	w.quiet()
	if len(deletions) != 1 {
		t.Errorf("%d deletions of one child", len(deletions))
	}
	body := <-deletions
	uid, _, _ := unstructured.NestedString(body, "preconditions", "uid")
	if uid != string(w.get(parts, "a").GetUID()) || body["propagationPolicy"] != string(metav1.DeletePropagationBackground) {
		t.Errorf("deletion options are %v", body)
	}
	w.patch(parts, "a", `{"metadata":{"finalizers":null}}`)
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

// The child was deleted and someone else made one of its name: whatever the late
// cache says, that one is not ours to change or to delete.
func TestStatement41SuccessorOfAChildIsLeftAlone(t *testing.T) {
	wanted := part("a", "blue")
	for name, c := range map[string]struct {
		verb    string
		changes []func(*applier.CompositeController)
		then    []string
	}{
		"partial update":  {http.MethodPatch, nil, []string{wanted}},
		"complete update": {http.MethodPatch, []func(*applier.CompositeController){complete}, []string{wanted}},
		"deletion":        {http.MethodDelete, nil, nil},
		"recreation":      {http.MethodDelete, []func(*applier.CompositeController){complete, method(applier.Recreate)}, []string{wanted}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).run(always(answer("", part("a", "red"))), c.changes...)
			w.parent("p", nil)
			w.eventually("the child exists", func() bool { return w.get(parts, "a") != nil })
			w.quiet()
			raced := w.beforeFirst(c.verb, "/parts/a", func() {
				w.delete(parts, "a")
				w.create(parts, w.namespace, object("exp.dev/v1", "Part", "a", map[string]any{"color": "foreign"}))
			})
			w.onSync(always(answer("", c.then...)))
			w.applier.Enqueue(w.namespace, "p")
			w.eventually("the race is run", raced.Load)
			w.quiet()
			if a := w.get(parts, "a"); field(a, "spec", "color") != "foreign" || len(a.GetOwnerReferences()) > 0 {
				t.Errorf("the successor is %v", a)
			}
		})
	}
}

// A child that the cache does not show yet is created by POST: one that someone
// made meanwhile is found, not overwritten.
func TestStatement41UnknownChildIsNotOverwritten(t *testing.T) {
	for name, changes := range map[string][]func(*applier.CompositeController){"partial": nil, "complete": {complete}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			raced := w.beforeFirst(http.MethodPost, "/parts", func() {
				w.create(parts, w.namespace, object("exp.dev/v1", "Part", "a", map[string]any{"color": "foreign"}))
			})
			w.run(always(answer("", part("a", "red"))), changes...)
			w.parent("p", nil)
			w.eventually("the conflict is reported", func() bool { return strings.Contains(w.logs.String(), "exists already, and nothing controls it") })
			w.quiet()
			if a := w.get(parts, "a"); !raced.Load() || field(a, "spec", "color") != "foreign" || len(a.GetOwnerReferences()) > 0 {
				t.Errorf("the unknown child is %v", a)
			}
			if slices.Contains(w.requests.all, "PATCH a") {
				t.Error("it was patched")
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
