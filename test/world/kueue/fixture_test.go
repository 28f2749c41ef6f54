package kueue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
	"rtj.dev/rtj/test/world/kueue"
)

const gpu = "example.com/gpu"

type object = map[string]any

// fixture is an API server with one Kueue, a ClusterQueue "cluster" with LocalQueue
// "queue" in namespace team.
type fixture struct {
	*kueue.Kueue
	t   testing.TB
	api *apiserver.Server
	now time.Time
}

// newFixture gives each flavor a quota of GPUs: "gold=4".
func newFixture(t testing.TB, config kueue.Config, quotas ...string) *fixture {
	t.Helper()
	f := &fixture{t: t, now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	f.api = apiserver.New(func() time.Time { return f.now })
	f.Kueue = kueue.New(kueue.Env{API: f.api, Now: func() time.Time { return f.now }}, config)
	var flavors []any
	for _, q := range quotas {
		name, n, _ := strings.Cut(q, "=")
		f.create(object{"kind": "ResourceFlavor", "metadata": object{"name": name}, "spec": object{"nodeLabels": object{"pool": name}}})
		flavors = append(flavors, object{"name": name, "resources": []any{object{"name": gpu, "nominalQuota": n}}})
	}
	f.create(object{"kind": "ClusterQueue", "metadata": object{"name": "cluster"}, "spec": object{
		"resourceGroups": []any{object{"coveredResources": []any{gpu}, "flavors": flavors}},
		"preemption":     object{"withinClusterQueue": "LowerPriority"},
	}})
	f.create(object{"kind": "LocalQueue", "metadata": object{"namespace": "team", "name": "queue"}, "spec": object{"clusterQueue": "cluster"}})
	f.settle()
	return f
}

func (f *fixture) create(body object) *apiserver.Object {
	f.t.Helper()
	o, err := f.api.Create("test", body)
	f.must(err)
	return o
}

// workload asks for pods of one GPU each. Each is a second younger than the one before.
func (f *fixture) workload(name string, pods, priority int64, more ...func(spec object)) *apiserver.Object {
	f.t.Helper()
	f.now = f.now.Add(time.Second)
	spec := object{"queueName": "queue", "priority": priority, "active": true, "podSets": []any{podSet("workers", pods)}}
	for _, change := range more {
		change(spec)
	}
	return f.create(object{"kind": "Workload", "spec": spec, "metadata": object{"namespace": "team", "name": name,
		"ownerReferences": []any{object{"kind": "ResumableTrainingJob", "name": name, "uid": "uid-of-" + name, "controller": true}}}})
}

func podSet(name string, pods int64) object {
	return object{"name": name, "count": pods, "template": object{"spec": object{"containers": []any{
		object{"name": "train", "resources": object{"requests": object{gpu: "1"}}},
	}}}}
}

// check makes an active AdmissionCheck that the ClusterQueue asks for.
func (f *fixture) check(name string) {
	f.t.Helper()
	o := f.create(object{"kind": "AdmissionCheck", "metadata": object{"name": name}, "spec": object{"controllerName": "test"}})
	_, err := f.api.Update("test", o, apiserver.Status, func(body map[string]any) {
		apiserver.SetCondition(body, f.now, "Active", "True", "Active", "")
	})
	f.must(err)
	_, err = f.api.Patch("admin", "ClusterQueue", "", "cluster", object{"spec": object{"admissionChecksStrategy": object{"admissionChecks": []any{object{"name": name}}}}}, "")
	f.must(err)
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) get(name string) *apiserver.Object {
	f.t.Helper()
	o := f.api.Get("Workload", "team", name)
	if o == nil {
		f.t.Fatalf("Workload %s does not exist", name)
	}
	return o
}

func (f *fixture) settle() {
	f.t.Helper()
	f.must(f.Settle())
}

// release gives quota back as the job side does: one guarded patch of the conditions as
// they are, with QuotaReserved=False of a reason and, if given, Requeued.
func (f *fixture) release(name, reason, isRequeued, requeuedReason string) {
	f.t.Helper()
	o := f.get(name)
	body := object{"status": object{"conditions": slices.Clone(o.List("status", "conditions"))}}
	set := func(kind, status, reason string) {
		apiserver.SetCondition(body, f.now, kind, status, reason, "")
	}
	set("QuotaReserved", "False", reason)
	set("Admitted", "False", "NoReservation")
	if isRequeued != "" {
		set("Requeued", isRequeued, requeuedReason)
	}
	f.patch(name, object{"conditions": body["status"].(object)["conditions"], "admission": nil}, o.Version)
}

// set writes one condition as the job side does.
func (f *fixture) set(name, kind, status, reason string) {
	f.t.Helper()
	o := f.get(name)
	body := object{"status": object{"conditions": slices.Clone(o.List("status", "conditions"))}}
	apiserver.SetCondition(body, f.now, kind, status, reason, "")
	f.patch(name, object{"conditions": body["status"].(object)["conditions"]}, o.Version)
}

func (f *fixture) patch(name string, status object, version int64) {
	f.t.Helper()
	_, err := f.api.Patch("job", "Workload", "team", name,
		object{"metadata": object{"resourceVersion": fmt.Sprint(version)}, "status": status}, apiserver.Status)
	f.must(err)
}

// spec makes a merge patch of the spec.
func (f *fixture) spec(name string, spec object) error {
	_, err := f.api.Patch("job", "Workload", "team", name, object{"spec": spec}, "")
	return err
}

// offered are the names of what Kueue may do now.
func (f *fixture) offered() (names []string) {
	f.Events(func(e event.Event) { names = append(names, e.Name) })
	return names
}

// is demands conditions: "QuotaReserved=True", "Evicted=True/Preempted", "Requeued=".
func (f *fixture) is(name string, conditions ...string) {
	f.t.Helper()
	o := f.get(name)
	for _, want := range conditions {
		kind, value, _ := strings.Cut(want, "=")
		status, reason, hasReason := strings.Cut(value, "/")
		c := o.Condition(kind)
		is, _ := c["status"].(string)
		why, _ := c["reason"].(string)
		if is != status || hasReason && why != reason {
			f.t.Errorf("%s: %s is %s/%s (%v), want %s", name, kind, is, why, c["message"], value)
		}
	}
}

func (f *fixture) used(flavor string, want int64) {
	f.t.Helper()
	if got := f.Used("cluster", flavor, gpu); got != want {
		f.t.Errorf("%d of %s are counted as used, want %d", got, flavor, want)
	}
}

// given demands the count and flavor of the first podSet's admission.
func (f *fixture) given(name, flavor string, count int64) {
	f.t.Helper()
	o := f.get(name)
	list := o.List("status", "admission", "podSetAssignments")
	if len(list) == 0 {
		f.t.Fatalf("%s has no admission; it can: %v", name, f.offered())
	}
	a := list[0].(object)
	if got := a["flavors"].(object)[gpu]; got != flavor || a["count"] != count {
		f.t.Errorf("%s got %v of %v, want %d of %s", name, a["count"], got, count, flavor)
	}
}
