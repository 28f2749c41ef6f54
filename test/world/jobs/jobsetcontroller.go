package jobs

import (
	"fmt"
	"slices"

	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
)

// byJobSet signs the writes of the JobSet controller.
const byJobSet = "jobset"

// jobSetPlan is what the JobSet controller would write now: Jobs, and then the status,
// which counts the Jobs as they were before.
type jobSetPlan struct {
	create          []newJob
	suspend, resume []*job
	delete          []*job
	// refused: a Job that is wanted cannot be created, so that nothing else is done.
	refused bool
	status  jobSetStatus
}

type newJob struct {
	replicated int // of the JobSet
	index      int64
}

// unwritten is a status that the controller has made and not written yet. It is
// written only if the JobSet is as it was then.
type unwritten struct {
	uid     string
	version int64
	status  jobSetStatus
}

func (c *Cluster) jobSetEvents(add func(event.Event)) {
	for _, o := range c.API.List("JobSet") {
		if o.Deleting() || !managed(o) {
			continue
		}
		s := jobSetOf(o)
		if i := slices.IndexFunc(c.unwritten, func(u unwritten) bool { return u.uid == o.UID && u.version == o.Version }); i >= 0 {
			status := c.unwritten[i].status
			add(event.Event{Name: "jobset: status " + o.Key(), Do: func() { c.writeJobSetStatus(s, status) }})
			continue
		}
		switch plan := c.planJobSet(s); {
		case len(plan.create)+len(plan.suspend)+len(plan.resume)+len(plan.delete) > 0:
			add(event.Event{Name: "jobset: jobs " + o.Key(), Do: func() { c.syncJobs(s, plan) }})
		case !plan.refused && !plan.status.equal(&s.status):
			add(event.Event{Name: "jobset: status " + o.Key(), Do: func() { c.writeJobSetStatus(s, plan.status) }})
		}
	}
}

// planJobSet is one reconcile of the JobSet controller.
func (c *Cluster) planJobSet(s *jobSet) (plan jobSetPlan) {
	jobs := c.jobsOf(s.UID)
	all := s.count(jobs)
	next := &plan.status
	*next = s.status
	next.counts = all
	now := timestamp(c.Now())
	var active []*job
	var failed, succeeded bool
	for _, j := range jobs {
		failed, succeeded = failed || j.failed, succeeded || j.complete
		if !j.finished() {
			active = append(active, j)
		}
	}
	switch {
	case s.finished:
		for _, j := range active {
			if !j.Deleting() {
				plan.delete = append(plan.delete, j)
			}
		}
		return plan
	case failed:
		reason, message := "FailedJobs", "jobset failed due to one or more job failures"
		if s.restartable {
			reason, message = "ReachedMaxRestarts", "jobset failed due to reaching max number of restarts"
		}
		next.set(now, jobset.JobSetFailed, "True", reason, fmt.Sprintf("%s (first failed job: %s)", message, firstFailed(jobs)))
		next.terminalState = string(jobset.JobSetFailed)
		return plan
	case succeeded && s.succeeds(jobs):
		next.set(now, jobset.JobSetCompleted, "True", "AllJobsCompleted", "jobset completed successfully")
		next.terminalState = string(jobset.JobSetCompleted)
		return plan
	}

	c.missing(s, jobs, all, &plan)
	if plan.refused {
		return plan
	}
	if s.suspend {
		for _, j := range active {
			if !j.suspend {
				plan.suspend = append(plan.suspend, j)
			}
		}
		next.set(now, jobset.JobSetSuspended, "True", "SuspendedJobs", "jobset is suspended")
		return plan
	}
	for _, r := range s.replicated {
		if !r.mayBegin(s, all) || s.inOrder && countsOf(all, r.name).started() == r.replicas {
			continue
		}
		for _, j := range active {
			if j.suspend && j.replicatedJob == r.name {
				plan.resume = append(plan.resume, j)
			}
		}
		if s.inOrder {
			next.inProgress(now)
			return plan
		}
	}
	next.set(now, jobset.JobSetSuspended, "False", "ResumeJobs", "jobset is resumed")
	return plan
}

// missing plans the Jobs that are to be created.
func (c *Cluster) missing(s *jobSet, jobs []*job, all []counts, plan *jobSetPlan) {
	now := timestamp(c.Now())
	for i, r := range s.replicated {
		ordered := s.inOrder && !s.suspend
		if !r.mayBegin(s, all) || ordered && countsOf(all, r.name).started() == r.replicas {
			continue
		}
		for index := range r.replicas {
			name := jobName(s, r, index)
			if slices.ContainsFunc(jobs, func(j *job) bool { return j.Name == name }) {
				continue
			}
			// A Job of that name that is another's is in the way.
			if c.API.Get("Job", s.Namespace, name) != nil || !c.mayCreate("Job", s.Namespace, len(plan.create)) {
				plan.refused = true
				continue
			}
			plan.create = append(plan.create, newJob{i, index})
		}
		if plan.refused {
			return
		}
		if ordered {
			plan.status.inProgress(now)
			return
		}
	}
	if s.inOrder && !s.suspend {
		plan.status.setFalse(jobset.JobSetStartupPolicyInProgress)
		plan.status.set(now, jobset.JobSetStartupPolicyCompleted, "True", "InOrderStartupPolicyCompleted", "in order startup policy has completed")
	}
}

func (s *jobSetStatus) inProgress(now string) {
	s.setFalse(jobset.JobSetStartupPolicyCompleted)
	s.set(now, jobset.JobSetStartupPolicyInProgress, "True", "InOrderStartupPolicyInProgress", "in order startup policy is in progress")
}

// syncJobs writes Jobs, and keeps the status that follows for later.
func (c *Cluster) syncJobs(s *jobSet, plan jobSetPlan) {
	for _, j := range plan.delete {
		_ = c.API.Delete(byJobSet, "Job", j.Namespace, j.Name, apiserver.Deletion{UID: j.UID, Propagation: apiserver.Foreground})
	}
	for _, n := range plan.create {
		c.createJob(s, n)
	}
	for _, j := range plan.suspend {
		_, _ = c.API.Patch(byJobSet, "Job", j.Namespace, j.Name, object{"metadata": object{"uid": j.UID}, "spec": object{"suspend": true}}, "")
	}
	for _, j := range plan.resume {
		c.resumeJob(s, j)
	}
	c.unwritten = slices.DeleteFunc(slices.Clone(c.unwritten), func(u unwritten) bool { return u.uid == s.UID })
	if !plan.refused && !plan.status.equal(&s.status) {
		c.unwritten = append(c.unwritten, unwritten{s.UID, s.Version, plan.status})
	}
}

func (c *Cluster) writeJobSetStatus(s *jobSet, status jobSetStatus) {
	c.unwritten = slices.DeleteFunc(slices.Clone(c.unwritten), func(u unwritten) bool { return u.uid == s.UID })
	_, _ = c.API.Update(byJobSet, s.Object, apiserver.Status, func(body map[string]any) { body["status"] = status.body() })
}

// resumeJob starts a Job. What of the pod template may have changed while the JobSet
// was suspended is merged into the Job's; nothing is taken away.
func (c *Cluster) resumeJob(s *jobSet, j *job) {
	if j.status.startTime != "" {
		_, _ = c.API.Patch(byJobSet, "Job", j.Namespace, j.Name, object{"status": object{"startTime": nil}}, apiserver.Status)
	}
	i := slices.IndexFunc(s.replicated, func(r replicatedJob) bool { return r.name == j.replicatedJob })
	if i < 0 {
		return
	}
	from, to := below(s.replicated[i].template, "spec", "template"), below(j.Body, "spec", "template")
	metadata, spec := object{}, object{}
	for _, key := range []string{"labels", "annotations"} {
		if merged := with(below(to, "metadata", key), below(from, "metadata", key)); len(merged) > 0 {
			metadata[key] = merged
		}
	}
	if merged := with(below(to, "spec", "nodeSelector"), below(from, "spec", "nodeSelector")); len(merged) > 0 {
		spec["nodeSelector"] = merged
	}
	for _, key := range []string{"tolerations", "schedulingGates"} {
		if merged := union(list(to, "spec", key), list(from, "spec", key)); len(merged) > 0 {
			spec[key] = merged
		}
	}
	_, _ = c.API.Patch(byJobSet, "Job", j.Namespace, j.Name, object{
		"metadata": object{"uid": j.UID},
		"spec":     object{"suspend": false, "template": object{"metadata": metadata, "spec": spec}},
	}, "")
}
