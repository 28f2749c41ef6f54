package apiserver_test

import (
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

type server struct {
	*apiserver.Server
	t   *testing.T
	now time.Time
}

func newServer(t *testing.T) *server {
	s := &server{t: t, now: noon}
	s.Server = apiserver.New(func() time.Time { return s.now })
	return s
}

func object(kind, name string, more map[string]any) map[string]any {
	body := map[string]any{"kind": kind, "metadata": map[string]any{"namespace": "team", "name": name}}
	for key, value := range more {
		body[key] = value
	}
	return body
}

func (s *server) create(body map[string]any) *apiserver.Object {
	s.t.Helper()
	o, err := s.Create("test", body)
	if err != nil {
		s.t.Fatal(err)
	}
	return o
}

// owned is an object that another controls.
func (s *server) owned(kind, name string, owner *apiserver.Object) *apiserver.Object {
	body := object(kind, name, nil)
	body["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"uid": owner.UID, "controller": true, "blockOwnerDeletion": true}}
	return s.create(body)
}

func (s *server) collect() (names []string) {
	apiserver.NewCollector(s.Server).Events(func(e event.Event) {
		names = append(names, e.Name)
		e.Do()
	})
	return names
}

func TestVersionsAndGenerations(t *testing.T) {
	s := newServer(t)
	o := s.create(object("JobSet", "a", map[string]any{"spec": map[string]any{"suspend": true}, "status": map[string]any{"x": "y"}}))
	if o.Generation != 1 || o.At("status") != nil {
		t.Fatalf("generation %d, status %v; want 1 and none", o.Generation, o.At("status"))
	}
	patch := func(body map[string]any, sub string) *apiserver.Object {
		t.Helper()
		next, err := s.Patch("test", "JobSet", "team", "a", body, sub)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	same := patch(map[string]any{"spec": map[string]any{"suspend": true}}, "")
	if same.Version != o.Version {
		t.Error("a patch that changes nothing made a version")
	}
	labelled := patch(map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}}, "")
	if labelled.Generation != 1 || labelled.Version <= o.Version || labelled.Label("a") != "b" {
		t.Errorf("a label made generation %d, version %d", labelled.Generation, labelled.Version)
	}
	started := patch(map[string]any{"spec": map[string]any{"suspend": false}, "status": map[string]any{"lost": true}}, "")
	if started.Generation != 2 || started.At("status") != nil {
		t.Errorf("a change of spec made generation %d, status %v", started.Generation, started.At("status"))
	}
	counted := patch(map[string]any{"spec": map[string]any{"suspend": true}, "status": map[string]any{"ready": int64(1)}}, apiserver.Status)
	if counted.Bool("spec", "suspend") || counted.Int("status", "ready") != 1 || counted.Generation != 2 {
		t.Errorf("a change of status made %v", counted.Body)
	}
	if !o.Bool("spec", "suspend") {
		t.Error("the first version has changed")
	}
}

func TestPreconditions(t *testing.T) {
	s := newServer(t)
	old := s.create(object("Workload", "w", nil))
	if _, err := s.Patch("test", "Workload", "team", "w", map[string]any{"spec": map[string]any{"active": false}}, ""); err != nil {
		t.Fatal(err)
	}
	guarded := map[string]any{"metadata": map[string]any{"resourceVersion": "1"}, "spec": map[string]any{"active": true}}
	if _, err := s.Patch("test", "Workload", "team", "w", guarded, ""); !apierrors.IsConflict(err) {
		t.Errorf("patch of an old version: %v", err)
	}
	if _, err := s.Update("test", old, "", func(map[string]any) {}); !apierrors.IsConflict(err) {
		t.Errorf("update of an old version: %v", err)
	}
	if err := s.Delete("test", "Workload", "team", "w", apiserver.Deletion{Version: old.Version}); !apierrors.IsConflict(err) {
		t.Errorf("deletion of an old version: %v", err)
	}
	if err := s.Delete("test", "Workload", "team", "w", apiserver.Deletion{UID: old.UID}); err != nil {
		t.Error(err)
	}
	again := s.create(object("Workload", "w", nil))
	if err := s.Delete("test", "Workload", "team", "w", apiserver.Deletion{UID: old.UID}); !apierrors.IsConflict(err) || again.UID == old.UID {
		t.Errorf("deletion of the one before: %v", err)
	}
	if _, err := s.Create("test", object("Workload", "w", nil)); !apierrors.IsAlreadyExists(err) {
		t.Errorf("creation of what exists: %v", err)
	}
}

func TestFinalizersKeepADeletedObject(t *testing.T) {
	s := newServer(t)
	body := object("ResumableTrainingJob", "llama", nil)
	body["metadata"].(map[string]any)["finalizers"] = []any{"keep"}
	s.create(body)
	if err := s.Delete("test", "ResumableTrainingJob", "team", "llama", apiserver.Deletion{}); err != nil {
		t.Fatal(err)
	}
	o := s.Get("ResumableTrainingJob", "team", "llama")
	if o == nil || !o.Deleting() {
		t.Fatalf("got %v, want it to stay", o)
	}
	more := map[string]any{"metadata": map[string]any{"finalizers": []any{"keep", "another"}}}
	if _, err := s.Patch("test", o.Kind, o.Namespace, o.Name, more, ""); !apierrors.IsForbidden(err) {
		t.Errorf("a new finalizer: %v", err)
	}
	none := map[string]any{"metadata": map[string]any{"finalizers": nil}}
	if _, err := s.Patch("test", o.Kind, o.Namespace, o.Name, none, ""); err != nil {
		t.Fatal(err)
	}
	if s.Get(o.Kind, o.Namespace, o.Name) != nil {
		t.Error("it is still there without finalizers")
	}
}

func TestCollectorGoesByUID(t *testing.T) {
	s := newServer(t)
	first := s.create(object("JobSet", "a", nil))
	s.owned("Job", "a-0", first)
	if names := s.collect(); len(names) > 0 {
		t.Fatalf("collected %v", names)
	}
	if err := s.Delete("test", "JobSet", "team", "a", apiserver.Deletion{}); err != nil {
		t.Fatal(err)
	}
	s.create(object("JobSet", "a", nil)) // of the same name
	s.collect()
	if s.Get("Job", "team", "a-0") != nil {
		t.Error("the Job of a JobSet that is gone stays, since another has its name")
	}
}

func TestForegroundDeletionWaitsForWhatIsOwned(t *testing.T) {
	s := newServer(t)
	owner := s.create(object("JobSet", "a", nil))
	s.owned("Job", "a-0", owner)
	if err := s.Delete("test", "JobSet", "team", "a", apiserver.Deletion{Propagation: apiserver.Foreground}); err != nil {
		t.Fatal(err)
	}
	if s.Get("JobSet", "team", "a") == nil {
		t.Fatal("gone before what it owns")
	}
	var names []string
	for range 5 {
		names = append(names, s.collect()...)
	}
	want := []string{"collector: collect Job team/a-0", "collector: let go Job team/a-0", "collector: let go JobSet team/a"}
	if !slices.Equal(names, want) {
		t.Errorf("collected %q, want %q", names, want)
	}
}

func TestPodsGetTheirGrace(t *testing.T) {
	s := newServer(t)
	s.create(object("Pod", "waits", nil))
	s.create(object("Pod", "runs", map[string]any{"spec": map[string]any{"nodeName": "n", "terminationGracePeriodSeconds": int64(300)}}))
	for _, name := range []string{"waits", "runs"} {
		if err := s.Delete("test", "Pod", "team", name, apiserver.Deletion{}); err != nil {
			t.Fatal(err)
		}
	}
	if s.Get("Pod", "team", "waits") != nil {
		t.Error("a pod without a node got a grace period")
	}
	runs := s.Get("Pod", "team", "runs")
	if runs == nil || runs.Text("metadata", "deletionTimestamp") != "2026-11-29T12:05:00Z" {
		t.Fatalf("got %v", runs)
	}
	none := int64(0)
	if err := s.Delete("kubelet", "Pod", "team", "runs", apiserver.Deletion{UID: runs.UID, Grace: &none}); err != nil {
		t.Fatal(err)
	}
	if s.Get("Pod", "team", "runs") != nil {
		t.Error("still there after its kubelet let it go")
	}
}

func TestNamespaceEnds(t *testing.T) {
	s := newServer(t)
	s.create(map[string]any{"kind": "Namespace", "metadata": map[string]any{"name": "team"}})
	s.create(object("ConfigMap", "c", nil))
	if err := s.Delete("test", "Namespace", "", "team", apiserver.Deletion{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create("test", object("ConfigMap", "d", nil)); !apierrors.IsForbidden(err) {
		t.Errorf("creation in a namespace that ends: %v", err)
	}
	for range 3 {
		s.collect()
	}
	if s.Get("Namespace", "", "team") != nil {
		t.Error("the empty namespace is still there")
	}
}

func TestViewsShowThePast(t *testing.T) {
	s := newServer(t)
	s.create(object("Job", "a", nil))
	then := s.Revision()
	s.create(object("Job", "b", nil))
	if err := s.Delete("test", "Job", "team", "a", apiserver.Deletion{}); err != nil {
		t.Fatal(err)
	}
	names := func(list []*apiserver.Object) (names []string) {
		for _, o := range list {
			names = append(names, o.Name)
		}
		return names
	}
	if got := names(s.View("Job", then)); !slices.Equal(got, []string{"a"}) {
		t.Errorf("then there were %v", got)
	}
	if got := names(s.View("Job", s.Revision())); !slices.Equal(got, []string{"b"}) {
		t.Errorf("now there are %v", got)
	}
	c := s.Clone(func() time.Time { return noon })
	if _, err := c.Create("test", object("Job", "c", nil)); err != nil {
		t.Fatal(err)
	}
	if got := names(s.List("Job")); !slices.Equal(got, []string{"b"}) {
		t.Errorf("a creation in the clone shows: %v", got)
	}
}
