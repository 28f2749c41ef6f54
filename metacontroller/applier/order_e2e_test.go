//go:build e2e

package applier_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/metacontroller/applier"
)

func configMap(name string) string {
	return `{apiVersion: v1, kind: ConfigMap, metadata: {name: ` + name + `}, data: {x: "1"}}`
}

func part(name, color string) string {
	return `{apiVersion: exp.dev/v1, kind: Part, metadata: {name: ` + name + `}, spec: {color: ` + color + `, size: 3}}`
}

// writing records the order of the requests of a method, by the kind and name of
// the object.
func (w *world) writing(method string) func() []string {
	seen := make(chan string, 10_000)
	w.requests.hook(func(r *http.Request) {
		if r.Method != method || strings.HasSuffix(r.URL.Path, "/status") {
			return
		}
		segments := strings.Split(r.URL.Path, "/")
		name := segments[len(segments)-1]
		if method == http.MethodPost {
			name = bodyOf(r).GetName()
		} else {
			segments = segments[:len(segments)-1]
		}
		seen <- segments[len(segments)-1] + " " + name
	})
	return func() []string {
		var list []string
		for len(seen) > 0 {
			list = append(list, <-seen)
		}
		return list
	}
}

func TestStatement33OrderOfTheAnswerAndItsReverse(t *testing.T) {
	w := newWorld(t)
	w.option = func(o *applier.Options) { o.Limits.ParentWrites = 1 }
	created := w.writing(http.MethodPost)
	w.run(always(answer("", configMap("z"), part("m", "red"), part("b", "red"), configMap("a"), part("a", "red"))))
	w.parent("p", nil)
	w.eventually("the last child exists", func() bool { return w.get(parts, "a") != nil })
	w.quiet()
	want := []string{"configmaps z", "parts m", "parts b", "configmaps a", "parts a"}
	if got := created(); !slices.Equal(got, want) {
		t.Errorf("created in the order %v, want %v", got, want)
	}

	updated := w.writing(http.MethodPatch)
	w.onSync(always(answer("", part("b", "blue"), configMap("a"), part("a", "blue"), configMap("z"), part("m", "blue"))))
	w.applier.Enqueue(w.namespace, "p")
	w.eventually("the last one is updated", func() bool { return field(w.get(parts, "m"), "spec", "color") == "blue" })
	w.quiet()
	// The first update of each also takes over what the creation left in managedFields.
	if got, want := slices.Compact(updated()), []string{"parts b", "parts a", "parts m"}; !slices.Equal(got, want) {
		t.Errorf("updated in the order %v, want %v", got, want)
	}

	deleted := w.writing(http.MethodDelete)
	w.onSync(always(answer("", configMap("a"))))
	w.applier.Enqueue(w.namespace, "p")
	w.eventually("the last one is gone", func() bool { return w.get(parts, "b") == nil })
	w.quiet()
	// The reverse of the last answer that held them.
	if got, want := deleted(), []string{"parts m", "configmaps z", "parts a", "parts b"}; !slices.Equal(got, want) {
		t.Errorf("deleted in the order %v, want %v", got, want)
	}
}

func TestStatement33ReverseOrderAfterARestart(t *testing.T) {
	w := newWorld(t)
	w.run(always(answer("", configMap("a"), configMap("b"), part("a", "red"))))
	w.parent("p", nil)
	w.eventually("the last child exists", func() bool { return w.get(parts, "a") != nil })
	w.stop()
	w.option = func(o *applier.Options) { o.Limits.ParentWrites = 1 }
	deleted := w.writing(http.MethodDelete)
	w.run(always(answer("")))
	w.eventually("all are gone", func() bool {
		return w.get(parts, "a") == nil && w.get(configMaps, "a") == nil && w.get(configMaps, "b") == nil
	})
	// No answer has held them, so the order of spec.childResources counts.
	if got := deleted(); len(got) != 3 || got[0] != "parts a" {
		t.Errorf("deleted in the order %v", got)
	}
}

func TestStatement33WaveWaitsForTheOneBefore(t *testing.T) {
	w := newWorld(t)
	w.requests.through(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		switch {
		case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/configmaps"):
			time.Sleep(100 * time.Millisecond) // the wave after it would overtake it
		case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/parts"):
			for _, name := range []string{"a", "b", "c"} {
				if w.get(configMaps, name) == nil {
					t.Errorf("a Part was created before ConfigMap %s of the wave before", name)
				}
			}
			if w.get(configMaps, "later") != nil {
				t.Error("a ConfigMap of the wave after was created before the Part")
			}
		}
		return send()
	})
	w.run(always(answer("", configMap("a"), configMap("b"), configMap("c"), part("a", "red"), configMap("later"))))
	w.parent("p", nil)
	w.eventually("all exist", func() bool { return w.get(configMaps, "later") != nil })
}

// A child that cannot be applied does not hold back the waves after it.
func TestStatement33FailedWaveHoldsNothingBack(t *testing.T) {
	w := newWorld(t).run(always(answer("", part("bad", "7"), configMap("a"), part("good", "red"))))
	w.parent("p", nil)
	w.eventually("the rest exists", func() bool { return w.get(configMaps, "a") != nil && w.get(parts, "good") != nil })
	if w.get(parts, "bad") != nil {
		t.Error("the bad one was accepted, so this shows nothing")
	}
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

// An answer that keeps a child lets the parent go with it.
func TestStatement33FinalizedLeavesWhatItStillWants(t *testing.T) {
	w := newWorld(t)
	w.finalize = func(*contract.SyncRequest) (*contract.SyncResponse, error) {
		r := answer("", configMap("kept"))
		r.Finalized = true
		return r, nil
	}
	w.run(always(answer("", configMap("kept"), configMap("dropped"))), withFinalize)
	w.parent("p", nil)
	w.eventually("the children exist", func() bool { return w.get(configMaps, "dropped") != nil && w.get(configMaps, "kept") != nil })
	w.requests.hook(func(r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/configmaps/kept") {
			t.Errorf("%s for the child that is kept", r.Method)
		}
	})
	w.delete(trains, "p")
	w.eventually("the parent is gone", func() bool { return w.get(trains, "p") == nil })
	if w.get(configMaps, "dropped") != nil {
		t.Error("the parent went before the child that is not wanted")
	}
}

func manyConfigMaps(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = configMap(fmt.Sprintf("c%03d", i))
	}
	return list
}
