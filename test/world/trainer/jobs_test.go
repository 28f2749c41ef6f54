package trainer

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"rtj.dev/rtj/hooks/catalog"
	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
	"rtj.dev/rtj/test/world/jobs"
	"rtj.dev/rtj/test/world/store"
)

// whole numbers as the API server has them.
func whole64(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			v[key] = whole64(item)
		}
	case []any:
		for i, item := range v {
			v[i] = whole64(item)
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return value
}

// prepared is the JobSet that a golden case of the controller creates: 2 pods of 2
// ranks.
func prepared(t *testing.T) map[string]any {
	t.Helper()
	data, err := os.ReadFile("../../../testdata/sync/admission-prepares-a-suspended-jobset/desired.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if data, err = yaml.YAMLToJSON(data); err != nil {
		t.Fatal(err)
	}
	var desired struct {
		Children []struct {
			Create string
			Object map[string]any
		}
	}
	if err := json.Unmarshal(data, &desired); err != nil {
		t.Fatal(err)
	}
	for _, child := range desired.Children {
		if child.Create == "JobSet/llama-1" {
			return whole64(child.Object).(map[string]any)
		}
	}
	t.Fatal("the case creates no JobSet")
	return nil
}

// The JobSet that the controller makes, run by the simulated Job controllers and
// kubelets: the workers train, hear the notice, commit, and fail their Jobs with 75.
func TestWorkersInTheirPods(t *testing.T) {
	now := noon
	clock := func() time.Time { return now }
	api := apiserver.New(clock)
	s := store.New(store.Env{Now: clock})
	workers := New(Env{Now: clock, Store: s, Behave: func(Attempt) Behaviour { return Timed(1000) }})
	cluster := jobs.New(jobs.Env{API: api, Now: clock, Workers: workers})
	create := func(body map[string]any) {
		t.Helper()
		if _, err := api.Create("test", body); err != nil {
			t.Fatal(err)
		}
	}
	type object = map[string]any
	create(object{"kind": "Namespace", "metadata": object{"name": "team-a"}})
	for _, name := range []string{"node-0", "node-1"} {
		create(object{"kind": "Node", "metadata": object{"name": name, "labels": object{"example.com/pool": "gpu"}}})
		allocatable := object{"status": object{"allocatable": object{"pods": "10", "cpu": "1", "example.com/gpu": "1"}}}
		if _, err := api.Patch("test", "Node", "", name, allocatable, apiserver.Status); err != nil {
			t.Fatal(err)
		}
	}
	create(prepared(t))
	work := func(what string, done func() bool) {
		t.Helper()
		for range 10_000 {
			if done() {
				return
			}
			var next func()
			for _, actor := range []event.Actor{cluster, workers} {
				actor.Events(func(e event.Event) {
					if next == nil && !e.Fault {
						next = e.Do
					}
				})
			}
			switch at := event.Soonest(cluster.Next(), workers.Next()); {
			case next != nil:
				next()
			case at.IsZero():
				t.Fatalf("nothing is left to do before %s", what)
			default:
				now = at
			}
		}
		t.Fatalf("never: %s", what)
	}
	work("it rests, suspended", func() bool { return len(api.List("Job")) == 1 })
	if _, err := api.Patch("rtj", "JobSet", "team-a", "llama-1", object{"spec": object{"suspend": false}}, ""); err != nil {
		t.Fatal(err)
	}
	work("steps", func() bool { all := workers.Attempts(); return len(all) == 1 && all[0].Step > 10 })
	a := workers.Attempts()[0]
	if a.Namespace != "team-a" || a.Name != "llama" || a.RunID != "uid-llama" || a.Number != 1 || a.WorldSize != 4 || a.Running != 2 {
		t.Errorf("%+v", a)
	}
	if first := workers.processes[0].env.first + workers.processes[1].env.first; first != 2 {
		t.Errorf("the pods' first ranks are not 0 and 2: %+v", workers.processes)
	}
	notice := `{"schemaVersion":"1.0","kind":"Notice","attempt":1,"counter":1,"yield":{"id":1,"cause":"Preempted","issuedAt":"` +
		now.Format(time.RFC3339) + `","durationSeconds":300}}`
	for _, pod := range api.List("Pod") {
		if pod.Label("batch.kubernetes.io/job-completion-index") != "0" {
			continue
		}
		body := object{"metadata": object{"annotations": object{"training.rtj.dev/yield": notice}}}
		if _, err := api.Patch("rtj", "Pod", "team-a", pod.Name, body, ""); err != nil {
			t.Fatal(err)
		}
	}
	work("failed", func() bool { return api.Get("JobSet", "team-a", "llama-1").True("Failed") })
	a = workers.Attempts()[0]
	if a.Asked != "Preempted" || a.Outcome != "yielded" || a.Lost() != 0 || a.Running != 0 || a.Commits[len(a.Commits)-1].Step != a.Agreed {
		t.Errorf("%+v", a)
	}
	snapshot := s.Read(catalog.Run{Namespace: "team-a", Name: "llama", RunID: "uid-llama", Location: catalog.Location{URI: "s3://checkpoints/team-a"}}, catalog.Ask{})
	if len(snapshot.Manifests) != 1 || snapshot.Manifests[0].Incomplete != "" || snapshot.Attempts[1].Result.Outcome != "yielded" {
		t.Errorf("%+v", snapshot)
	}
}
