package hooks_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/hooks/contract"
	"rtj.dev/rtj/test/lifecycle"
)

// running is a request for a job that trains.
func running(t *testing.T) *lifecycle.Moment {
	t.Helper()
	m, err := lifecycle.After("apply", "kueue admit", "workers ready", "catalog start", "catalog progress step=10")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestObserveTakesWhatIsThere(t *testing.T) {
	o, err := hooks.Observe(running(t).Request)
	if err != nil {
		t.Fatal(err)
	}
	for what, n := range map[string]int{
		"Workloads": len(o.Workloads), "JobSets": len(o.JobSets), "Jobs": len(o.Jobs), "leader pods": len(o.LeaderPods),
		"LocalQueues": len(o.LocalQueues), "ClusterQueues": len(o.ClusterQueues), "flavors": len(o.Flavors),
	} {
		if n != 1 {
			t.Errorf("%d %s, want 1", n, what)
		}
	}
	if o.Control == nil {
		t.Error("the control document is missing")
	}
	if o.Jobs[0].Status.Ready != 2 || len(o.Workloads[0].Status.Conditions) == 0 || o.Workloads[0].Raw == nil {
		t.Errorf("Job %+v, Workload %+v", o.Jobs[0].Status, o.Workloads[0])
	}
}

func TestObserveLeavesOutWhatItDoesNotKnow(t *testing.T) {
	r := running(t).Request
	r.Children.Set("Service.v1", "team-a/x", json.RawMessage(`{"spec":"whatever"}`))
	r.Children.Set("ConfigMap.v1", "team-a/other", json.RawMessage(`{"metadata":{"namespace":"team-a","name":"other"},"data":{}}`))
	r.Related.Set("LocalQueue.kueue.x-k8s.io/v1beta1", "team-a/old", json.RawMessage(`{"spec":7}`))
	o, err := hooks.Observe(r)
	if err != nil {
		t.Fatal(err)
	}
	if o.Control == nil || o.Control.Meta.Name != "llama-control" {
		t.Errorf("control document %+v", o.Control)
	}
	if len(o.LocalQueues) != 1 {
		t.Errorf("%d LocalQueues", len(o.LocalQueues))
	}
}

func TestObserveNamesWhatIsMalformed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*contract.SyncRequest)
		want   string
	}{
		"a Job's spec": {
			func(r *contract.SyncRequest) {
				r.Related.Set("Job.batch/v1", "team-a/bad", json.RawMessage(`{"metadata":{"name":"bad"},"spec":{"parallelism":"many"}}`))
			},
			`related["Job.batch/v1"]["team-a/bad"]: spec.parallelism: want int32, got string`,
		},
		"a condition of a Workload": {
			func(r *contract.SyncRequest) {
				r.Children.Set("Workload.kueue.x-k8s.io/v1beta2", "team-a/bad", json.RawMessage(`{"status":{"conditions":[{"type":"A"},{"type":7}]}}`))
			},
			`children["Workload.kueue.x-k8s.io/v1beta2"]["team-a/bad"]: status.conditions[1].type: want string, got number`,
		},
		"an object without a name": {
			func(r *contract.SyncRequest) {
				r.Related.Set("Job.batch/v1", "team-a/bad", json.RawMessage(`{"metadata":{}}`))
			},
			`related["Job.batch/v1"]["team-a/bad"]: metadata.name: missing`,
		},
		"keys of version v1": {
			func(r *contract.SyncRequest) {
				r.Related.Set("Job.batch/v1", "one", json.RawMessage(`{"metadata":{"namespace":"team-a","name":"one"}}`))
			},
			`related["Job.batch/v1"]["one"]: is team-a/one by its metadata; hooks are called in version v2, in which keys are namespace/name`,
		},
		"the parent's template": {
			func(r *contract.SyncRequest) {
				r.Parent = json.RawMessage(`{"apiVersion":"training.rtj.dev/v1beta1","kind":"ResumableTrainingJob","spec":{"template":{"spec":{"replicatedJobs":{}}}}}`)
			},
			`parent: spec.template.spec.replicatedJobs: want []v1alpha2.ReplicatedJob, got object`,
		},
		"a parent of another kind": {
			func(r *contract.SyncRequest) { r.Parent = json.RawMessage(`{"apiVersion":"v1","kind":"Pod"}`) },
			`parent: want ResumableTrainingJob of training.rtj.dev/v1beta1, got "Pod" of "v1"`,
		},
		"a parent without uid": {
			func(r *contract.SyncRequest) {
				r.Parent = json.RawMessage(`{"apiVersion":"training.rtj.dev/v1beta1","kind":"ResumableTrainingJob","metadata":{"name":"a","namespace":"b"}}`)
			},
			`parent.metadata.uid: missing`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := running(t).Request
			c.change(r)
			_, err := hooks.Observe(r)
			var refused *contract.Error
			if !errors.As(err, &refused) {
				t.Fatalf("got %v, want a contract error", err)
			}
			if err.Error() != c.want {
				t.Errorf("got  %s\nwant %s", err, c.want)
			}
		})
	}
}

func TestObserveKeepsUnknownFieldsOfChildren(t *testing.T) {
	m := running(t)
	const jobSets, place = "JobSet.jobset.x-k8s.io/v1alpha2", "team-a/llama-1"
	raw := strings.Replace(string(m.Request.Children.Get(jobSets, place)), `"spec":{`, `"spec":{"ofTheNextVersion":{"a":[1,"two"]},`, 1)
	m.Request.Children.Set(jobSets, place, json.RawMessage(raw))
	answer := decide(t, m)
	for _, child := range answer.Children {
		if strings.Contains(string(child), `"kind":"JobSet"`) {
			if !strings.Contains(string(child), `"ofTheNextVersion":{"a":[1,"two"]}`) {
				t.Errorf("the field is lost: %s", child)
			}
			return
		}
	}
	t.Error("no JobSet is returned")
}
