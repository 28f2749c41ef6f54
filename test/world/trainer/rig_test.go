package trainer

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog"
	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
	"rtj.dev/rtj/test/world/store"
)

const uri = "s3://checkpoints/here"

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// rig is workers with a store and a clock.
type rig struct {
	*Trainer
	t         *testing.T
	now       time.Time
	store     *store.Store
	behaviour Behaviour
}

func newRig(t *testing.T, b Behaviour) *rig {
	r := &rig{t: t, now: noon, behaviour: b}
	r.store = store.New(store.Env{Now: r.clock})
	r.Trainer = New(r.environment())
	return r
}

func (r *rig) clock() time.Time { return r.now }

func (r *rig) environment() Env {
	return Env{Now: r.clock, Store: r.store, Behave: func(Attempt) Behaviour { return r.behaviour }}
}

// pod is one of two Jobs of an attempt, of one pod with one rank.
func pod(attempt int32, index int, restore string) *apiserver.Object {
	n, i := strconv.Itoa(int(attempt)), strconv.Itoa(index)
	value := func(name, value string) any { return map[string]any{"name": name, "value": value} }
	label := func(name, label string) any {
		return map[string]any{"name": name, "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.labels['" + label + "']"}}}
	}
	uid := "a-" + n + "/" + i
	return apiserver.Of(map[string]any{
		"kind":     "Pod",
		"metadata": map[string]any{"namespace": "team", "name": "a-" + n + "-w-" + i, "uid": uid, "labels": map[string]any{"job-index": i, "pod-index": "0"}},
		"spec": map[string]any{"nodeName": "node-" + i, "containers": []any{map[string]any{"name": "train", "env": []any{
			value("RTJ_NAMESPACE", "team"), value("RTJ_NAME", "a"), value("RTJ_RUN_ID", "run-1"), value("RTJ_ATTEMPT", n),
			value("RTJ_STORAGE_URI", uri), value("RTJ_RESTORE", restore), value("RTJ_WORLD_SIZE", "2"), value("RTJ_PROCESSES_PER_POD", "1"),
			value("RTJ_PODS_PER_JOB", "1"), label("RTJ_JOB_INDEX", "job-index"), label("RTJ_POD_INDEX", "pod-index"),
			value("RTJ_TERMINATION_GRACE_SECONDS", "30"), value("RTJ_CHECKPOINT_INTERVAL_SECONDS", "60"), value("RTJ_IDENTITY", `{"codeVersion":"v7"}`),
		}}}},
	})
}

// start starts both pods of an attempt.
func (r *rig) start(attempt int32, restore string) {
	for i := range 2 {
		r.Start(pod(attempt, i, restore))
	}
}

func uid(attempt int32, index int) string { return fmt.Sprintf("a-%d/%d", attempt, index) }

// ask puts a control document into both pods.
func (r *rig) ask(attempt int32, within time.Duration) {
	text := fmt.Sprintf(`{"schemaVersion":"1.0","kind":"Control","attempt":%d,"yield":{"id":%d,"cause":"Preempted","issuedAt":%q,"deadline":%q}}`,
		attempt, attempt, r.now.Format(time.RFC3339), r.now.Add(within).Format(time.RFC3339))
	for i := range 2 {
		r.Projected(uid(attempt, i), text, "")
	}
}

func (r *rig) do(what ...string) {
	r.t.Helper()
	for _, what := range what {
		if err := r.Do(what); err != nil {
			r.t.Fatal(err)
		}
	}
}

// offered reports whether an event is.
func (r *rig) offered(part string) bool {
	found := false
	r.Events(func(e event.Event) { found = found || strings.Contains(e.Name, part) })
	return found
}

// work has the workers do what they can, and lets time pass to what is due, until done
// says so.
func (r *rig) work(done func() bool) {
	r.t.Helper()
	for range 10_000 {
		if r.Work(done) {
			return
		}
		next := event.Soonest(r.Next(), r.store.Next())
		if next.IsZero() {
			break
		}
		r.now = next
	}
	r.t.Fatalf("they have nothing to do at %s: %+v", r.now.Sub(noon), r.last())
}

func (r *rig) last() Attempt { all := r.Attempts(); return all[len(all)-1] }

// codes are those of an attempt's pods; -1 runs.
func (r *rig) codes(attempt int32) (codes [2]int32) {
	for i := range codes {
		_, exited, code := r.State(uid(attempt, i))
		if codes[i] = code; !exited {
			codes[i] = -1
		}
	}
	return codes
}

func (r *rig) ended() bool { return r.last().Running == 0 }

func (r *rig) run() catalog.Run {
	return catalog.Run{Namespace: "team", Name: "a", RunID: "run-1", Location: catalog.Location{URI: uri}}
}

func (r *rig) read() *checkpoint.Snapshot {
	r.t.Helper()
	s := r.store.Read(r.run(), catalog.Ask{})
	if s.Failure != nil || s.Problems != nil {
		r.t.Fatalf("%+v %q", s.Failure, s.Problems)
	}
	return s
}

// selected is what the next attempt would restore.
func (r *rig) selected() string {
	r.t.Helper()
	c := checkpoint.Select(r.read(), checkpoint.Query{RunID: "run-1", WorldSize: 2, Identity: map[string]string{"codeVersion": "v7"}})
	if c.Selected == nil {
		return ""
	}
	return c.Selected.ID
}

// committed trains until a checkpoint of the step is committed, and returns its id.
func (r *rig) committed(step int64) string {
	r.t.Helper()
	r.work(func() bool {
		commits := r.last().Commits
		return len(commits) > 0 && commits[len(commits)-1].Step >= step
	})
	commits := r.last().Commits
	return commits[len(commits)-1].ID
}

// key is that of an object of the run.
func key(below string) string { return store.RunPrefix(uri, "team", "a", "run-1") + below }
