package jobs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
	"rtj.dev/rtj/test/world/jobs"
)

type object = map[string]any

// workers do as the test says.
type workers struct {
	pods map[string]*worker // by UID
	// unready has pods not be ready at their start; onTerm is what they exit with on
	// SIGTERM: -1, nothing.
	unready bool
	onTerm  int32
	log     []string
}

type worker struct {
	name            string
	ready, exited   bool
	code            int32
	control, notice string
}

func (w *workers) pod(uid string) *worker {
	if w.pods[uid] == nil {
		w.pods[uid] = &worker{}
	}
	return w.pods[uid]
}

func (w *workers) Start(pod *apiserver.Object) {
	p := w.pod(pod.UID)
	p.name, p.ready = pod.Name, !w.unready
	w.log = append(w.log, "start "+pod.Name)
}

func (w *workers) Projected(uid, control, notice string) {
	p := w.pod(uid)
	p.control, p.notice = control, notice
}

func (w *workers) Terminate(uid string) {
	p := w.pod(uid)
	w.log = append(w.log, "terminate "+p.name)
	if w.onTerm >= 0 {
		w.exit(uid, w.onTerm)
	}
}

func (w *workers) Kill(uid string) {
	w.log = append(w.log, "kill "+w.pod(uid).name)
	w.exit(uid, 137)
}

func (w *workers) State(uid string) (ready, exited bool, code int32) {
	p := w.pods[uid]
	if p == nil {
		return false, false, 0
	}
	return p.ready, p.exited, p.code
}

func (w *workers) exit(uid string, code int32) {
	p := w.pod(uid)
	p.ready, p.exited, p.code = false, true, code
}

type rig struct {
	t         testing.TB
	now       time.Time
	api       *apiserver.Server
	collector *apiserver.Collector
	workers   *workers
	*jobs.Cluster
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), workers: &workers{pods: map[string]*worker{}}}
	r.api = apiserver.New(func() time.Time { return r.now })
	r.collector = apiserver.NewCollector(r.api)
	r.Cluster = jobs.New(jobs.Env{API: r.api, Now: func() time.Time { return r.now }, Workers: r.workers, Prompt: true})
	r.create(object{"kind": "Namespace", "metadata": object{"name": "team"}})
	for _, name := range []string{"node-0", "node-1"} {
		r.create(object{"kind": "Node", "metadata": object{"name": name, "labels": object{"pool": "a"}}})
		r.patch("Node", "", name, object{"status": object{"allocatable": object{"pods": "10", "cpu": "2"}}}, apiserver.Status)
	}
	return r
}

func (r *rig) create(body object) *apiserver.Object {
	r.t.Helper()
	o, err := r.api.Create("test", body)
	if err != nil {
		r.t.Fatal(err)
	}
	return o
}

func (r *rig) patch(kind, namespace, name string, body object, subresource string) {
	r.t.Helper()
	if _, err := r.api.Patch("test", kind, namespace, name, body, subresource); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// exitCode is a rule of a podFailurePolicy.
func exitCode(operator string, codes ...int64) object {
	var values []any
	for _, code := range codes {
		values = append(values, code)
	}
	return object{"action": "FailJob", "onExitCodes": object{"operator": operator, "values": values}}
}

// jobSet is one as RTJ builds it: Jobs of one replicatedJob, with pods each.
func jobSet(name string, suspend bool, replicas, pods int64) object {
	return object{
		"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
		"metadata": object{"namespace": "team", "name": name},
		"spec": object{
			"suspend": suspend, "failurePolicy": object{"maxRestarts": int64(0)},
			"replicatedJobs": []any{object{"name": "workers", "replicas": replicas, "template": object{
				"metadata": object{"labels": object{"mine": "yes"}},
				"spec": object{
					"parallelism": pods, "completions": pods, "backoffLimit": int64(0),
					"podFailurePolicy": object{"rules": []any{
						object{"action": "FailJob", "onPodConditions": []any{object{"type": "DisruptionTarget", "status": "True"}}},
						exitCode("In", 75), exitCode("In", 76), exitCode("In", 77), exitCode("NotIn", 75, 76, 77),
					}},
					"template": object{"metadata": object{"labels": object{"mine": "yes"}}, "spec": object{
						"restartPolicy": "Never", "terminationGracePeriodSeconds": int64(120),
						"containers": []any{object{"name": "train", "resources": object{"requests": object{"cpu": "1"}}}},
						"volumes": []any{object{"name": "rtj-control", "projected": object{"sources": []any{
							object{"configMap": object{"name": "llama-control", "optional": true, "items": []any{object{"key": "control.json", "path": "control.json"}}}},
							object{"downwardAPI": object{"items": []any{object{"path": "notice.json", "fieldRef": object{"fieldPath": "metadata.annotations['training.rtj.dev/yield']"}}}}},
						}}}},
					}},
				},
			}}},
		},
	}
}

// running is a JobSet that runs, with its pods ready.
func (r *rig) running(replicas, pods int64) {
	r.t.Helper()
	r.create(jobSet("llama-1", false, replicas, pods))
	r.Settle()
	for _, p := range r.pods() {
		r.want("Pod "+p.Name, p.Text("status", "phase"), "Running")
	}
	if n := len(r.pods()); int64(n) != replicas*pods {
		r.t.Fatalf("%d pods run, want %d", n, replicas*pods)
	}
}

func (r *rig) jobSet() *apiserver.Object { return r.api.Get("JobSet", "team", "llama-1") }
func (r *rig) job(i int) *apiserver.Object {
	return r.api.Get("Job", "team", fmt.Sprintf("llama-1-workers-%d", i))
}
func (r *rig) pods() []*apiserver.Object { return r.api.List("Pod") }

// exit has the processes of a pod end.
func (r *rig) exit(i int, code int32) { r.workers.exit(r.pods()[i].UID, code) }

// step has the one event happen whose name begins so.
func (r *rig) step(name string) {
	r.t.Helper()
	var all []string
	var found []event.Event
	add := func(e event.Event) {
		all = append(all, e.Name)
		if strings.HasPrefix(e.Name, name) {
			found = append(found, e)
		}
	}
	r.Events(add)
	r.collector.Events(add)
	if len(found) != 1 {
		r.t.Fatalf("%d events begin with %q, want one; there are\n%s", len(found), name, strings.Join(all, "\n"))
	}
	found[0].Do()
}

// work are the names of the events that are no faults.
func (r *rig) work() (names []string) {
	r.Events(func(e event.Event) {
		if !e.Fault {
			names = append(names, e.Name)
		}
	})
	return names
}

// settleAll settles together with the garbage collector.
func (r *rig) settleAll() {
	for {
		r.Settle()
		var first *event.Event
		r.collector.Events(func(e event.Event) {
			if first == nil {
				first = &e
			}
		})
		if first == nil {
			return
		}
		first.Do()
	}
}

func (r *rig) pass(d time.Duration) { r.now = r.now.Add(d) }

func (r *rig) want(what string, got, want any) {
	r.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// conditions are the types that are True, with their reasons, in order.
func conditions(o *apiserver.Object) string {
	var all []string
	for _, item := range o.List("status", "conditions") {
		c := item.(object)
		if c["status"] == "True" {
			all = append(all, fmt.Sprintf("%v=%v", c["type"], c["reason"]))
		}
	}
	return strings.Join(all, " ")
}

// counts are the numbers in the status of a Job, or of a JobSet's only replicatedJob.
func counts(o *apiserver.Object) string {
	from := o.At("status")
	if list := o.List("status", "replicatedJobsStatus"); list != nil {
		from = list[0]
	}
	var all []string
	if m, ok := from.(object); ok {
		for key, value := range m {
			if n, ok := value.(int64); ok && (n != 0 || key == "terminating") && key != "restarts" {
				all = append(all, fmt.Sprintf("%s=%d", key, n))
			}
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func message(o *apiserver.Object, kind string) string {
	text, _ := o.Condition(kind)["message"].(string)
	return text
}
