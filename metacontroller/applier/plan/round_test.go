package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rtj.dev/rtj/hooks/contract"
)

var (
	maps1 = &ChildKind{Kind: Kind{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap", Namespaced: true}, Method: InPlace}
	jobs1 = &ChildKind{Kind: Kind{Resource: schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, Kind: "Job", Namespaced: true}, Method: InPlace, Rank: 1}

	trains = &Controller{
		Parent:   Kind{Resource: schema.GroupVersionResource{Group: "exp.dev", Version: "v1", Resource: "trains"}, Kind: "Train", Namespaced: true, HasStatus: true},
		Children: []*ChildKind{maps1, jobs1}, Finalizer: "exp.dev/trains", Selector: labels.Everything(),
		GeneratesSelector: true, Complete: true, Syncs: true, Finalizes: true,
	}
	noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
)

func objectOf(t *testing.T, text string) *Object {
	t.Helper()
	return Shared(parse(t, text), nil)
}

// train is a parent with the finalizer; more is of its metadata.
func train(t *testing.T, more string) *Object {
	return objectOf(t, `{"apiVersion":"exp.dev/v1","kind":"Train","metadata":{"name":"p","namespace":"n","uid":"u-p","resourceVersion":"7","generation":2,
		"finalizers":["exp.dev/trains"]`+more+`},"status":{"observedGeneration":2,"phase":"Runs"}}`)
}

// part is a child of the train with a value.
func part(t *testing.T, kind *ChildKind, name, value string) *Object {
	return objectOf(t, fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":"n","uid":"u-%s","resourceVersion":"5",
		"labels":{"controller-uid":"u-p"},"ownerReferences":[{"uid":"u-p","controller":true}]},"spec":{"value":%q}}`,
		kind.Resource.GroupVersion(), kind.Kind.Kind, name, name, value))
}

func want(t *testing.T, kind *ChildKind, name, value string) Want {
	object := parse(t, fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"controller-uid":"u-p"}},"spec":{"value":%q}}`, name, value))
	return Want{Identity: contract.Identity{APIVersion: kind.Resource.GroupVersion().String(), Kind: kind.Kind.Kind, Namespace: "n", Name: name}, Object: object}
}

// begun is a round in which the children were observed.
func begun(t *testing.T, parent *Object, m *Memory, children map[*ChildKind][]*Object) *Round {
	t.Helper()
	r := trains.Begin(parent, m)
	if r == nil {
		t.Fatal("none of ours")
	}
	if _, err := r.Select(); err != nil {
		t.Fatal(err)
	}
	for kind, owned := range children {
		if actions := r.Claim(kind, owned, nil); len(actions) > 0 {
			t.Fatalf("%d actions", len(actions))
		}
	}
	return r
}

// told names the actions of waves, wave by wave.
func told(waves []Wave) string {
	var list []string
	for _, wave := range waves {
		var names []string
		for _, a := range wave {
			names = append(names, string(a.Verb)+" "+a.Name)
		}
		list = append(list, strings.Join(names, ", "))
	}
	return strings.Join(list, "; ")
}

func decide(t *testing.T, r *Round, answer *Answer) {
	t.Helper()
	if err := r.Decide(answer, noon); err != nil {
		t.Fatal(err)
	}
}

// A wave is a run of neighbours of one kind in the answer: one with nothing to do
// separates those around it all the same.
func TestWavesFollowTheAnswer(t *testing.T) {
	r := begun(t, train(t, ""), NewMemory(), map[*ChildKind][]*Object{
		maps1: {part(t, maps1, "a", "1"), part(t, maps1, "b", "1"), part(t, maps1, "d", "1")}, jobs1: {part(t, jobs1, "c", "1")},
	})
	same := want(t, jobs1, "c", "")
	same.Same = true
	decide(t, r, &Answer{Children: []Want{want(t, maps1, "a", "2"), want(t, maps1, "b", "2"), same, want(t, maps1, "d", "2"), want(t, jobs1, "e", "1")}})
	waves, unchanged := r.Applications()
	if got := told(waves); got != "patch a, patch b; patch d; create e" {
		t.Errorf("waves: %s", got)
	}
	if len(unchanged) != 1 || unchanged[0] != jobs1 {
		t.Errorf("unchanged: %v", unchanged)
	}
}

// What is not wanted goes in the reverse of the last answer's order, before that
// what no answer has held.
func TestDeletionsReverseTheLastAnswer(t *testing.T) {
	m := NewMemory()
	children := map[*ChildKind][]*Object{
		maps1: {part(t, maps1, "a", "1"), part(t, maps1, "b", "1"), part(t, maps1, "old", "1")}, jobs1: {part(t, jobs1, "c", "1")},
	}
	r := begun(t, train(t, ""), m, children)
	decide(t, r, &Answer{Children: []Want{want(t, maps1, "a", "1"), want(t, jobs1, "c", "1"), want(t, maps1, "b", "1")}})
	if got := told(r.Deletions()); got != "delete old" {
		t.Errorf("first: %s", got)
	}
	r.Applications()
	r = begun(t, train(t, ""), m, children)
	decide(t, r, &Answer{})
	deletions := r.Deletions()
	if got := told(deletions); got != "delete old, delete b; delete c; delete a" {
		t.Errorf("then: %s", got)
	}
	if a := deletions[0][0]; a.UID != "u-old" || a.ResourceVersion != "5" || a.Propagation != "Background" {
		t.Errorf("deletion of %s %s %s", a.UID, a.ResourceVersion, a.Propagation)
	}
}

// To say that a child stays as it was is to return it as it was.
func TestSameIsAsObserved(t *testing.T) {
	unlabelled := part(t, maps1, "a", "1")
	unlabelled = Shared(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "spec": unlabelled.Unstructured.Object["spec"], "metadata": parse(t,
		`{"name":"a","namespace":"n","uid":"u-a","resourceVersion":"5","ownerReferences":[{"uid":"u-p","controller":true}]}`)}, nil)
	for name, c := range map[string]struct {
		parent string
		child  *Object
	}{
		"labelled": {"", part(t, maps1, "a", "1")},
		// Of a parent that goes every owned object is a child; it gets the label back.
		"without the label": {`,"deletionTimestamp":"2026-11-29T12:00:00Z"`, unlabelled},
	} {
		t.Run(name, func(t *testing.T) {
			plans := map[bool]string{}
			for _, same := range []bool{true, false} {
				r := begun(t, train(t, c.parent), NewMemory(), map[*ChildKind][]*Object{maps1: {c.child}})
				w := want(t, maps1, "a", "")
				if w.Same = same; !same {
					w.Object = parse(t, string(c.child.JSON()))
				}
				decide(t, r, &Answer{Children: []Want{w}, Status: map[string]any{"phase": "Runs"}})
				waves, _ := r.Applications()
				text, err := json.Marshal(waves)
				if err != nil {
					t.Fatal(err)
				}
				plans[same] = string(text)
			}
			if plans[true] != plans[false] {
				t.Errorf("said to be the same\n%s\nreturned whole\n%s", plans[true], plans[false])
			}
			if patched := strings.Contains(plans[true], `"controller-uid":"u-p"`); patched != (c.child == unlabelled) {
				t.Errorf("plan %s", plans[true])
			}
		})
	}
	r := begun(t, train(t, ""), NewMemory(), nil)
	w := want(t, maps1, "a", "")
	w.Same = true
	if err := r.Decide(&Answer{Children: []Want{w}}, noon); err == nil {
		t.Error("a child is the same as one that was not observed")
	}
}

// The status that was observed is only written again for another generation.
func TestSameStatus(t *testing.T) {
	r := begun(t, train(t, ""), NewMemory(), nil)
	decide(t, r, &Answer{SameStatus: true})
	if a := r.Status(); a != nil {
		t.Errorf("written: %v", a.Body)
	}
	later := train(t, "")
	later.SetGeneration(3)
	r = begun(t, later, NewMemory(), nil)
	decide(t, r, &Answer{SameStatus: true})
	a := r.Status()
	if a == nil {
		t.Fatal("nothing is written")
	}
	text, _ := json.Marshal(a.Body)
	if want := `{"metadata":{"resourceVersion":"7","uid":"u-p"},"status":{"observedGeneration":3}}`; string(text) != want || a.Subresource != "status" {
		t.Errorf("%s of %q", text, a.Subresource)
	}
}

// A parent is let go once the hook says so, all was written, and nothing is left
// that it does not want; while the garbage collector holds it, that is its business.
func TestLetGo(t *testing.T) {
	const going = `,"deletionTimestamp":"2026-11-29T12:00:00Z"`
	left := map[*ChildKind][]*Object{maps1: {part(t, maps1, "a", "1")}}
	for name, c := range map[string]struct {
		parent    string
		children  map[*ChildKind][]*Object
		finalized bool
		done      bool
		want      bool
	}{
		"all gone":            {going, nil, true, true, true},
		"the hook waits":      {going, nil, false, true, false},
		"something failed":    {going, nil, true, false, false},
		"a child is left":     {going, left, true, true, false},
		"not being deleted":   {"", nil, true, true, false},
		"collected by others": {going + `,"finalizers":["exp.dev/trains","foregroundDeletion"]`, left, true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := begun(t, train(t, c.parent), NewMemory(), c.children)
			decide(t, r, &Answer{Finalized: c.finalized})
			if got := r.LetGo(c.done) != nil; got != c.want {
				t.Errorf("let go: %v", got)
			}
		})
	}
}

// What follows from the answer to a creation.
func TestCreationThatComesTooLate(t *testing.T) {
	exists := apierrors.NewAlreadyExists(schema.GroupResource{Resource: "configmaps"}, "a")
	foreign := part(t, maps1, "a", "1").DeepCopy()
	foreign.SetOwnerReferences(nil)
	for name, c := range map[string]struct {
		live *Object
		err  error
		lost bool
	}{
		"ours, and the view is late": {part(t, maps1, "a", "1"), nil, true},
		"nobody's":                   {Shared(foreign.Object, nil), nil, false},
		"gone again":                 {nil, apierrors.NewNotFound(schema.GroupResource{}, "a"), true},
	} {
		t.Run(name, func(t *testing.T) {
			r := begun(t, train(t, ""), NewMemory(), nil)
			decide(t, r, &Answer{Children: []Want{want(t, maps1, "a", "1")}})
			waves, _ := r.Applications()
			outcome := r.Done(waves[0][0], nil, exists, noon)
			if outcome.Err != nil || outcome.Next == nil || outcome.Next.Verb != Look {
				t.Fatalf("outcome %+v", outcome)
			}
			outcome = r.Done(outcome.Next, c.live, c.err, noon)
			var lost *LostRace
			var conflict *OwnershipConflict
			if errors.As(outcome.Err, &lost) != c.lost || errors.As(outcome.Err, &conflict) == c.lost {
				t.Errorf("outcome %v", outcome.Err)
			}
		})
	}
}

// world is a view.
type world map[string]*Object

func (w world) Get(_ *ChildKind, _, name string) *Object { return w[name] }
func (w world) Revision(*ChildKind) string               { return "6" }

// A write is waited for until the view shows it or something later, for five seconds.
func TestOwnWritesAreWaitedFor(t *testing.T) {
	m := NewMemory()
	r := begun(t, train(t, ""), m, map[*ChildKind][]*Object{maps1: {part(t, maps1, "a", "1")}})
	decide(t, r, &Answer{Children: []Want{want(t, maps1, "a", "2")}})
	waves, _ := r.Applications()
	written := part(t, maps1, "a", "2")
	written.SetResourceVersion("8")
	r.Done(waves[0][0], written, nil, noon)
	before := m.Clone()
	stale := world{"a": part(t, maps1, "a", "1")}
	if wait := m.Outstanding(noon.Add(time.Second), stale); wait != 4*time.Second {
		t.Errorf("wait %s", wait)
	}
	if wait := m.Outstanding(noon, world{"a": written}); wait != 0 {
		t.Errorf("wait %s although it is seen", wait)
	}
	if wait := before.Outstanding(noon, stale); wait != 5*time.Second {
		t.Errorf("a clone waits %s", wait)
	}
	if wait := before.Outstanding(noon.Add(5*time.Second), stale); wait != 0 {
		t.Errorf("wait %s for a watch that is broken", wait)
	}
	if err := waves[0][0].Overtaken(world{"a": written}); err == nil {
		t.Error("an update of an older state is sent")
	}
	if err := waves[0][0].Overtaken(stale); err != nil {
		t.Error(err)
	}
}
