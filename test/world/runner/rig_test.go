package runner_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
	"rtj.dev/rtj/test/world/jobs"
	"rtj.dev/rtj/test/world/kueue"
	"rtj.dev/rtj/test/world/runner"
	"rtj.dev/rtj/test/world/store"
)

type object = map[string]any

// rig is a small world without an engine: everything that acts, a clock, and what
// the runners decided.
type rig struct {
	t         testing.TB
	now       time.Time
	api       *apiserver.Server
	store     *store.Store
	kueue     *kueue.Kueue
	jobs      *jobs.Cluster
	runners   []*runner.Runner
	decisions []*compose.Decision
	json      func() bool
}

// quiet workers are ready at once, do nothing, and end by SIGTERM with 0.
type quiet struct{ ended map[string]bool }

func (quiet) Start(*apiserver.Object)          {}
func (quiet) Projected(string, string, string) {}
func (q quiet) Terminate(uid string)           { q.ended[uid] = true }
func (q quiet) Kill(uid string)                { q.ended[uid] = true }
func (q quiet) State(uid string) (ready, exited bool, code int32) {
	return !q.ended[uid], q.ended[uid], 0
}

const infrastructure = `
- {kind: Namespace, metadata: {name: team}}
- {kind: ResourceFlavor, metadata: {name: gpu}, spec: {nodeLabels: {pool: gpu}}}
- kind: ClusterQueue
  metadata: {name: cluster}
  spec:
    resourceGroups:
    - coveredResources: [cpu]
      flavors: [{name: gpu, resources: [{name: cpu, nominalQuota: 2}]}]
    preemption: {withinClusterQueue: LowerPriority}
- {kind: LocalQueue, metadata: {name: team, namespace: team}, spec: {clusterQueue: cluster}}
- kind: Node
  metadata: {name: node-1, labels: {pool: gpu}}
  status: {capacity: {cpu: "8", pods: "10"}, allocatable: {cpu: "8", pods: "10"}, conditions: [{type: Ready, status: "True"}]}
`

const training = `
apiVersion: training.rtj.dev/v1beta1
kind: ResumableTrainingJob
metadata: {name: NAME, namespace: team}
spec:
  queueName: team
  trainer: {processesPerPod: 1}
  template:
    spec:
      replicatedJobs:
      - name: workers
        replicas: 2
        template:
          spec:
            parallelism: 1
            completions: 1
            completionMode: Indexed
            backoffLimit: 0
            template:
              spec:
                restartPolicy: Never
                containers:
                - {name: train, image: llama, command: [rtj-run, train], resources: {requests: {cpu: "1"}}}
  checkpoint: {storage: {uri: "s3://checkpoints/team"}, interval: 10m}
  yield: {gracePeriod: 5m, forceAfter: 10m}
  resume: {compatibility: {worldSize: Reshard, identity: Match}, onNone: Wait}
  failurePolicy: {maxFailures: 3, backoff: 10s}
  startup: {deadline: 15m}
`

func newRig(t testing.TB, options ...runner.Options) *rig {
	r := &rig{t: t, now: time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)}
	now := func() time.Time { return r.now }
	r.api = apiserver.New(now)
	r.store = store.New(store.Env{Now: now})
	r.kueue = kueue.New(kueue.Env{API: r.api, Now: now}, kueue.Config{})
	r.jobs = jobs.New(jobs.Env{API: r.api, Now: now, Workers: quiet{map[string]bool{}}})
	for _, o := range decode[[]object](t, infrastructure) {
		status := o["status"]
		made, err := r.api.Create("test", o)
		if err == nil && status != nil {
			_, err = r.api.Update("test", made, apiserver.Status, func(body object) { body["status"] = status })
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range options {
		r.runners = append(r.runners, runner.New(r.env(), o))
	}
	return r
}

func (r *rig) env() runner.Env {
	return runner.Env{
		API: r.api, Store: r.store, Now: func() time.Time { return r.now },
		JSON:    func() bool { return r.json == nil || r.json() },
		Differs: func(err error) { r.t.Fatal(err) },
		Trace:   func(_ string, _ *compose.Observation, d *compose.Decision) { r.decisions = append(r.decisions, d) },
	}
}

func decode[T any](t testing.TB, text string) (value T) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var wrapped object
	if err := utiljson.Unmarshal([]byte(`{"v":`+string(raw)+"}"), &wrapped); err != nil {
		t.Fatal(err)
	}
	switch into := any(&value).(type) {
	case *object:
		*into = wrapped["v"].(object)
	case *[]object:
		for _, item := range wrapped["v"].([]any) {
			*into = append(*into, item.(object))
		}
	}
	return value
}

func (r *rig) apply(name string) *apiserver.Object {
	r.t.Helper()
	o, err := r.api.Create("user", decode[object](r.t, strings.ReplaceAll(training, "NAME", name)))
	if err != nil {
		r.t.Fatal(err)
	}
	return o
}

func (r *rig) spec(name, field string, value any) {
	r.t.Helper()
	if _, err := r.api.Patch("user", "ResumableTrainingJob", "team", name, object{"spec": object{field: value}}, ""); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) actors() []event.Actor {
	actors := []event.Actor{r.kueue, r.jobs, apiserver.NewCollector(r.api)}
	for _, of := range r.runners {
		actors = append(actors, of)
	}
	return actors
}

func (r *rig) events() (events []event.Event) {
	for _, a := range r.actors() {
		a.Events(func(e event.Event) { events = append(events, e) })
	}
	return events
}

// settle does what can be done without faults, and has time pass up to a limit.
func (r *rig) settle(limit time.Duration) {
	r.t.Helper()
	end := r.now.Add(limit)
	for range 100_000 {
		events := slices.DeleteFunc(r.events(), func(e event.Event) bool { return e.Fault })
		if len(events) > 0 {
			events[0].Do()
			continue
		}
		if !r.pass(end) {
			return
		}
	}
	r.t.Fatal("it does not settle")
}

// pass has time pass until something is due, at most until end.
func (r *rig) pass(end time.Time) bool {
	var next time.Time
	for _, a := range r.actors() {
		next = event.Soonest(next, a.Next())
	}
	if next.IsZero() || next.After(end) {
		return false
	}
	if !next.After(r.now) {
		next = r.now.Add(time.Second)
	}
	r.now = next
	return true
}

// wander does random events; only what the runners do goes wrong.
func (r *rig) wander(random *rand.Rand, steps int) {
	for range steps {
		events := r.events()
		if len(events) == 0 || random.IntN(20) == 0 {
			r.pass(r.now.Add(time.Hour))
			continue
		}
		e := events[random.IntN(len(events))]
		if e.Fault && (!strings.HasPrefix(e.Name, "rtj-") || random.IntN(20) > 0) {
			continue
		}
		e.Do()
	}
}

func (r *rig) phase(name string) string {
	o := r.api.Get("ResumableTrainingJob", "team", name)
	if o == nil {
		return "gone"
	}
	return fmt.Sprint(o.At("status", "phase"))
}
