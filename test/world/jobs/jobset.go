package jobs

import (
	"cmp"
	"slices"
	"strings"

	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"rtj.dev/rtj/test/world/apiserver"
)

const (
	jobSetAPI        = "jobset.x-k8s.io/v1alpha2"
	jobSetController = jobset.JobSetControllerName

	labelReplicatedJob = jobset.ReplicatedJobNameKey
	labelJobIndex      = jobset.JobIndexKey
)

// jobSet is what the JobSet controller reads of one version of a JobSet.
type jobSet struct {
	*apiserver.Object
	suspend, finished bool
	replicated        []replicatedJob
	inOrder           bool // startupPolicy
	// any and targets are the successPolicy.
	any     bool
	targets []string
	// restartable has a failurePolicy.
	restartable bool
	status      jobSetStatus
}

type replicatedJob struct {
	name, group string
	replicas    int64
	template    object
	dependsOn   []any
}

// jobSetStatus is a JobSet's status.
type jobSetStatus struct {
	conditions    []any
	restarts      int64
	terminalState string
	counts        []counts
}

// counts are how many Jobs of a replicatedJob are what.
type counts struct {
	name                                        string
	ready, succeeded, failed, active, suspended int64
}

type jobSetKey struct{}

func jobSetOf(o *apiserver.Object) *jobSet {
	return o.Cached(jobSetKey{}, func() any {
		spec, status := below(o.Body, "spec"), below(o.Body, "status")
		s := &jobSet{
			Object: o, suspend: isTrue(spec, "suspend"),
			finished: o.True(string(jobset.JobSetCompleted)) || o.True(string(jobset.JobSetFailed)),
			inOrder:  text(spec, "startupPolicy", "startupPolicyOrder") == string(jobset.InOrder),
			any:      text(spec, "successPolicy", "operator") == string(jobset.OperatorAny),
			targets:  texts(list(spec, "successPolicy", "targetReplicatedJobs")), restartable: spec["failurePolicy"] != nil,
			status: jobSetStatus{conditions: list(status, "conditions"), restarts: number(status, 0, "restarts"), terminalState: text(status, "terminalState")},
		}
		for _, item := range list(spec, "replicatedJobs") {
			r, _ := item.(object)
			s.replicated = append(s.replicated, replicatedJob{
				name: text(r, "name"), group: text(r, "groupName"), replicas: number(r, 1, "replicas"),
				template: below(r, "template"), dependsOn: list(r, "dependsOn"),
			})
		}
		for _, item := range list(status, "replicatedJobsStatus") {
			r, _ := item.(object)
			s.status.counts = append(s.status.counts, counts{
				name: text(r, "name"), ready: number(r, 0, "ready"), succeeded: number(r, 0, "succeeded"), failed: number(r, 0, "failed"),
				active: number(r, 0, "active"), suspended: number(r, 0, "suspended"),
			})
		}
		return s
	}).(*jobSet)
}

func (s *jobSetStatus) equal(t *jobSetStatus) bool {
	sameConditions := len(s.conditions) == len(t.conditions) && (len(s.conditions) == 0 || &s.conditions[0] == &t.conditions[0])
	return sameConditions && s.terminalState == t.terminalState && slices.Equal(s.counts, t.counts)
}

func (s *jobSetStatus) body() object {
	o := object{"restarts": s.restarts}
	if len(s.conditions) > 0 {
		o["conditions"] = s.conditions
	}
	if s.terminalState != "" {
		o["terminalState"] = s.terminalState
	}
	if len(s.counts) > 0 {
		var items []any
		for _, n := range s.counts {
			items = append(items, object{
				"name": n.name, "ready": n.ready, "succeeded": n.succeeded, "failed": n.failed, "active": n.active, "suspended": n.suspended,
			})
		}
		o["replicatedJobsStatus"] = items
	}
	return o
}

// set sets a condition as the JobSet controller does: False is not set where there
// was none.
func (s *jobSetStatus) set(now string, kind jobset.JobSetConditionType, status, reason, message string) {
	next := object{"type": string(kind), "status": status, "reason": reason, "message": message, "lastTransitionTime": now}
	for i, item := range s.conditions {
		old := item.(object)
		if old["type"] != next["type"] {
			continue
		}
		if old["status"] == status {
			if old["reason"] == reason && old["message"] == message {
				return
			}
			next["lastTransitionTime"] = old["lastTransitionTime"]
		}
		s.conditions = slices.Clone(s.conditions)
		s.conditions[i] = next
		return
	}
	if status == "True" {
		s.conditions = append(slices.Clone(s.conditions), next)
	}
}

// setFalse has a condition that another excludes be False, and changes nothing else.
func (s *jobSetStatus) setFalse(kind jobset.JobSetConditionType) {
	for i, item := range s.conditions {
		if old := item.(object); old["type"] == string(kind) && old["status"] == "True" {
			s.conditions = slices.Clone(s.conditions)
			s.conditions[i] = with(old, object{"status": "False"})
		}
	}
}

// count counts the Jobs of each replicatedJob, in the order in which the status has
// them: by name, backwards.
func (s *jobSet) count(jobs []*job) []counts {
	all := make([]counts, 0, len(s.replicated))
	for _, r := range s.replicated {
		n := counts{name: r.name}
		for _, j := range jobs {
			if j.replicatedJob != r.name {
				continue
			}
			switch {
			case j.complete:
				n.succeeded++
			case j.failed:
				n.failed++
			default:
				want := j.parallelism
				if j.completions >= 0 {
					want = min(want, j.completions)
				}
				if j.status.succeeded+max(j.status.ready, 0) >= want {
					n.ready++
				}
				if j.status.active > 0 {
					n.active++
				}
				if j.suspend {
					n.suspended++
				}
			}
		}
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b counts) int { return cmp.Compare(b.name, a.name) })
	return all
}

// started as startupPolicy InOrder asks for.
func (n counts) started() int64 { return n.failed + n.ready + n.succeeded }

func countsOf(all []counts, name string) counts {
	for _, n := range all {
		if n.name == name {
			return n
		}
	}
	return counts{}
}

// mayBegin: what the replicatedJob depends on has come so far.
func (r replicatedJob) mayBegin(s *jobSet, all []counts) bool {
	for _, item := range r.dependsOn {
		d, _ := item.(object)
		name := text(d, "name")
		i := slices.IndexFunc(s.replicated, func(r replicatedJob) bool { return r.name == name })
		if i < 0 {
			return false
		}
		n, want := countsOf(all, name), s.replicated[i].replicas
		if d["status"] == string(jobset.DependencyComplete) && n.succeeded != want || d["status"] == string(jobset.DependencyReady) && n.started() != want {
			return false
		}
	}
	return true
}

// succeeds tells whether so many successful Jobs complete the JobSet.
func (s *jobSet) succeeds(jobs []*job) bool {
	counts := func(name string) bool { return len(s.targets) == 0 || slices.Contains(s.targets, name) }
	var have, want int64
	for _, j := range jobs {
		if j.complete && counts(j.replicatedJob) {
			have++
		}
	}
	for _, r := range s.replicated {
		if counts(r.name) {
			want += r.replicas
		}
	}
	if s.any {
		want = 1
	}
	return have > 0 && have >= want
}

// firstFailed is the name of the Job that failed first.
func firstFailed(jobs []*job) string {
	var first *job
	for _, j := range jobs {
		if j.failed && (first == nil || j.failedAt.Before(first.failedAt)) {
			first = j
		}
	}
	return first.Name
}

// jobsOf a JobSet, in the order of their names.
func (c *Cluster) jobsOf(jobSetUID string) (jobs []*job) {
	for _, o := range c.API.List("Job") {
		if j := jobOf(o); j.jobSet == jobSetUID {
			jobs = append(jobs, j)
		}
	}
	slices.SortStableFunc(jobs, func(a, b *job) int { return strings.Compare(a.Name, b.Name) })
	return jobs
}
