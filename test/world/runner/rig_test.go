package runner_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/test/world/apiserver"
	events "rtj.dev/rtj/test/world/event"
	"rtj.dev/rtj/test/world/jobs"
	"rtj.dev/rtj/test/world/kueue"
	"rtj.dev/rtj/test/world/runner"
	"rtj.dev/rtj/test/world/store"
)

type (
	object = map[string]any
	event  = events.Event
)

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
	quiet     quiet
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
	r := &rig{t: t, quiet: quiet{map[string]bool{}}, now: time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)}
	now := func() time.Time { return r.now }
	r.api = apiserver.New(now)
	r.store = store.New(store.Env{Now: now})
	r.kueue = kueue.New(kueue.Env{API: r.api, Now: now}, kueue.Config{})
	r.jobs = jobs.New(jobs.Env{API: r.api, Now: now, Workers: r.quiet})
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

func (r *rig) actors() []events.Actor {
	actors := []events.Actor{r.kueue, r.jobs, apiserver.NewCollector(r.api)}
	for _, of := range r.runners {
		actors = append(actors, of)
	}
	return actors
}

func (r *rig) events() (events []event) {
	for _, a := range r.actors() {
		a.Events(func(e event) { events = append(events, e) })
	}
	return events
}

// do does the event of that name, and fails where there is none.
func (r *rig) do(names ...string) {
	r.t.Helper()
	for _, name := range names {
		var others []string
		found := false
		for _, e := range r.events() {
			if found = e.Name == name; found {
				e.Do()
				break
			}
			others = append(others, e.Name)
		}
		if !found {
			r.t.Fatalf("no event %q among\n%s", name, strings.Join(others, "\n"))
		}
	}
}

// offers reports whether an event may happen now.
func (r *rig) offers(name string) bool {
	return slices.ContainsFunc(r.events(), func(e event) bool { return e.Name == name })
}

// until settles until an event may happen, and leaves it to the caller.
func (r *rig) until(name string, limit time.Duration) {
	r.t.Helper()
	end := r.now.Add(limit)
	for range 100_000 {
		events := slices.DeleteFunc(r.events(), func(e event) bool { return e.Fault })
		if slices.ContainsFunc(events, func(e event) bool { return e.Name == name }) {
			return
		}
		if len(events) > 0 {
			events[0].Do()
		} else if !r.pass(end) {
			break
		}
	}
	r.t.Fatalf("%q never may happen", name)
}

// clone is another rig in the same state.
func (r *rig) clone() *rig {
	c := &rig{t: r.t, now: r.now, json: r.json, decisions: slices.Clone(r.decisions), quiet: quiet{maps.Clone(r.quiet.ended)}}
	now := func() time.Time { return c.now }
	c.api, c.store = r.api.Clone(now), r.store.Clone(store.Env{Now: now})
	c.kueue = r.kueue.Clone(kueue.Env{API: c.api, Now: now})
	c.jobs = r.jobs.Clone(jobs.Env{API: c.api, Now: now, Workers: c.quiet})
	for _, of := range r.runners {
		c.runners = append(c.runners, of.Clone(c.env()))
	}
	return c
}

// told is all that is observable: the objects and what was decided.
func (r *rig) told() string {
	var text strings.Builder
	for _, kind := range r.api.Kinds() {
		for _, o := range r.api.List(kind) {
			text.Write(o.JSON())
			text.WriteByte('\n')
		}
	}
	for _, d := range r.decisions {
		line, err := json.Marshal(d)
		if err != nil {
			r.t.Fatal(err)
		}
		text.Write(line)
		text.WriteByte('\n')
	}
	return text.String()
}

// settleBut does what can be done now, but for some events.
func (r *rig) settleBut(names ...string) {
	for {
		events := slices.DeleteFunc(r.events(), func(e event) bool { return e.Fault || slices.Contains(names, e.Name) })
		if len(events) == 0 {
			return
		}
		events[0].Do()
	}
}

// settle does what can be done without faults, and has time pass up to a limit.
func (r *rig) settle(limit time.Duration) {
	r.t.Helper()
	end := r.now.Add(limit)
	for range 100_000 {
		events := slices.DeleteFunc(r.events(), func(e event) bool { return e.Fault })
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
		next = events.Soonest(next, a.Next())
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
