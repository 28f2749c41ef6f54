package lifecycle

import (
	"fmt"
	"strconv"

	"rtj.dev/rtj/api/v1beta1"
)

// verbWorkers shows an attempt's JobSet, Jobs and pods in a state that the real
// ones go through; attempt=N is another one than the newest:
//
//	workers start               pods are there, none is ready
//	workers ready               all are ready
//	workers ending [pods=1]     pods terminate, and the Jobs go on
//	workers stopping            the JobSet is suspended, the pods are terminating
//	workers stopped             the JobSet is suspended, no pod is left
//	workers complete            all pods exited with 0
//	workers fail [exit=N]       a pod exited with N
//	workers fail disruption     a pod was a disruption target
func (w *world) verbWorkers(c *command) error {
	jobSet, err := w.jobSet(c)
	if err != nil {
		return err
	}
	what := c.word("")
	state, ok := workerStates[what]
	if !ok {
		return fmt.Errorf("unknown %q", what)
	}
	n, err := c.numbers(map[string]int64{"pods": 1, "exit": 1})
	if err != nil {
		return err
	}
	message := fmt.Sprintf("Container train for pod team-a/%v-workers-0-0 failed with exit code %d", metadata(jobSet)["name"], n["exit"])
	if what == "fail" && c.word("") == "disruption" {
		message = fmt.Sprintf("Pod team-a/%v-workers-0-0 has condition DisruptionTarget matching FailJob rule at index 0", metadata(jobSet)["name"])
	}
	for _, job := range w.jobsOf(jobSet) {
		spec, status := below(job, "spec"), below(job, "status")
		pods := spec["parallelism"].(int64)
		for _, key := range []string{"active", "ready", "terminating", "succeeded", "failed"} {
			status[key] = int64(0)
		}
		spec["suspend"] = state.suspended
		state.show(status, pods, min(n["pods"], pods))
		if state.suspended {
			w.setCondition(job, "Suspended", "True", "JobSuspended", "Job suspended")
		}
		if state.condition != "" {
			text := "Reached expected number of succeeded pods"
			if state.condition == "Failed" {
				text = message
			}
			w.setCondition(job, state.condition, "True", state.reason, text)
		}
		w.touch(job)
		w.showPods(job, status["active"].(int64)+status["terminating"].(int64))
	}
	w.countJobs(jobSet)
	switch state.condition {
	case "Complete":
		w.setCondition(jobSet, "Completed", "True", "AllJobsCompleted", "jobset completed successfully")
	case "Failed":
		w.setCondition(jobSet, "Failed", "True", "FailedJobs", "jobset failed due to one or more job failures")
	}
	w.touch(jobSet)
	return nil
}

// workerState is how a Job looks.
type workerState struct {
	suspended         bool
	condition, reason string
	show              func(status object, pods, some int64)
}

var workerStates = map[string]workerState{
	"start": {show: func(s object, pods, _ int64) { s["active"] = pods }},
	"ready": {show: func(s object, pods, _ int64) { s["active"], s["ready"] = pods, pods }},
	"ending": {show: func(s object, pods, some int64) {
		s["active"], s["ready"], s["terminating"] = pods-some, pods-some, some
	}},
	"stopping": {suspended: true, show: func(s object, pods, _ int64) { s["terminating"] = pods }},
	"stopped":  {suspended: true, show: func(object, int64, int64) {}},
	"complete": {condition: "Complete", reason: "CompletionsReached", show: func(s object, pods, _ int64) { s["succeeded"] = pods }},
	"fail":     {condition: "Failed", reason: "PodFailurePolicy", show: func(s object, _, _ int64) { s["failed"] = int64(1) }},
}

// jobSet returns the JobSet of attempt=N, or the newest.
func (w *world) jobSet(c *command) (object, error) {
	if !c.has("attempt") {
		return w.newest("JobSet")
	}
	n, err := c.number("attempt", 0)
	if err != nil {
		return nil, err
	}
	place := fmt.Sprintf("JobSet/%v-%d", metadata(w.parent)["name"], n)
	if w.children[place] == nil {
		return nil, fmt.Errorf("there is no %s", place)
	}
	return w.children[place], nil
}

// jobsOf returns the Jobs of a JobSet and makes those that are not there.
func (w *world) jobsOf(jobSet object) []object {
	var jobs []object
	list, _ := below(jobSet, "spec")["replicatedJobs"].([]any)
	for _, item := range list {
		replicated := item.(object)
		replicas, ok := replicated["replicas"].(int64)
		if !ok {
			replicas = 1
		}
		for i := range replicas {
			o := object{"kind": "Job", "metadata": object{
				"name": fmt.Sprintf("%v-%v-%d", metadata(jobSet)["name"], replicated["name"], i),
				"labels": object{
					"jobset.sigs.k8s.io/jobset-name":        metadata(jobSet)["name"],
					"jobset.sigs.k8s.io/replicatedjob-name": replicated["name"],
					"jobset.sigs.k8s.io/job-index":          strconv.FormatInt(i, 10),
					v1beta1.LabelUID:                        metadata(w.parent)["uid"],
					v1beta1.LabelAttempt:                    below(jobSet, "metadata", "labels")[v1beta1.LabelAttempt],
				},
			}}
			if old := w.related[id(o)]; old != nil {
				jobs = append(jobs, old)
				continue
			}
			parallelism, ok := below(replicated, "template", "spec")["parallelism"].(int64)
			if !ok {
				parallelism = 1
			}
			o["spec"] = object{"parallelism": parallelism, "suspend": false}
			o["status"] = object{}
			w.create(o)
			w.related[id(o)] = o
			jobs = append(jobs, o)
		}
	}
	return jobs
}

// countJobs sets what a JobSet's status says about its Jobs.
func (w *world) countJobs(jobSet object) {
	counts := map[any]object{}
	var list []any
	for _, job := range w.jobsOf(jobSet) {
		name := below(job, "metadata", "labels")["jobset.sigs.k8s.io/replicatedjob-name"]
		count := counts[name]
		if count == nil {
			count = object{"name": name, "ready": int64(0), "active": int64(0), "succeeded": int64(0), "failed": int64(0), "suspended": int64(0)}
			counts[name] = count
			list = append(list, count)
		}
		status := below(job, "status")
		add := func(key string, when bool) {
			if when {
				count[key] = count[key].(int64) + 1
			}
		}
		ended := conditionOf(job, "Complete")["status"] == "True" || conditionOf(job, "Failed")["status"] == "True"
		add("succeeded", conditionOf(job, "Complete")["status"] == "True")
		add("failed", conditionOf(job, "Failed")["status"] == "True")
		add("suspended", !ended && below(job, "spec")["suspend"] == true)
		add("active", !ended && positive(status["active"]))
		add("ready", !ended && status["ready"] == below(job, "spec")["parallelism"])
	}
	below(jobSet, "status")["replicatedJobsStatus"] = list
}

func positive(n any) bool {
	i, ok := n.(int64)
	return ok && i > 0
}
