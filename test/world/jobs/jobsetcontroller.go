package jobs

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

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

// decision is a reconcile under way: what is still to be written, decided by what the
// controller saw of a JobSet and its Jobs. Its status is written only if the JobSet is
// still that version, and what it changes of a Job only if the Job is.
type decision struct {
	of   *jobSet
	plan jobSetPlan
	at   time.Time
}

// underWay is how long a reconcile may be under way. One that takes longer counts as
// broken off: its controller was killed, or its requests ran into their deadline.
const underWay = 10 * time.Second

func (c *Cluster) isUnderWay(d decision) bool { return c.Now().Before(d.at.Add(underWay)) }

// decisionsNext is when the next decision that is under way is broken off; zero: never.
func (c *Cluster) decisionsNext() (next time.Time) {
	for _, d := range c.decisions {
		if c.isUnderWay(d) {
			next = event.Soonest(next, d.at.Add(underWay))
		}
	}
	return next
}

// jobSetEvents: a reconcile of which only the Jobs were written goes on with the status;
// where decisions come late, it begins by being decided. What was decided is written even
// if the JobSet is another by then, or is gone.
func (c *Cluster) jobSetEvents(add func(event.Event)) {
	for _, d := range c.decisions {
		if !c.isUnderWay(d) {
			continue
		}
		if d.plan.writes() > 0 {
			c.offerJobs(d.of, d.plan, add)
		} else if c.current(d) {
			add(event.Event{Name: "jobset: status " + d.of.Key(), Do: func() { c.writeJobSetStatus(d.of, d.plan.status) }})
		}
	}
	for _, o := range c.API.List("JobSet") {
		if o.Deleting() || !managed(o) || slices.ContainsFunc(c.decisions, func(d decision) bool {
			return d.of.UID == o.UID && c.isUnderWay(d) && (d.plan.writes() > 0 || c.current(d))
		}) {
			continue
		}
		s := jobSetOf(o)
		plan := c.planJobSet(s)
		switch writesStatus := !plan.refused && !plan.status.equal(&s.status); {
		case plan.writes() == 0 && !writesStatus:
		case !c.Prompt:
			add(event.Event{Name: "jobset: reconcile " + o.Key(), Do: func() { c.decide(s, plan) }})
		case plan.writes() > 0:
			c.offerJobs(s, plan, add)
		default:
			add(event.Event{Name: "jobset: status " + o.Key(), Do: func() { c.writeJobSetStatus(s, plan.status) }})
		}
	}
}

func (c *Cluster) offerJobs(s *jobSet, plan jobSetPlan, add func(event.Event)) {
	add(event.Event{Name: "jobset: jobs " + s.Key(), Do: func() { c.syncJobs(s, plan) }})
	if first := plan.first(); plan.writes() > 1 {
		add(event.Event{Name: "jobset: one job of " + s.Key(), Do: func() { c.syncJobs(s, first) }})
	}
}

// current: the JobSet is still the one that was decided about.
func (c *Cluster) current(d decision) bool {
	o := c.API.Get("JobSet", d.of.Namespace, d.of.Name)
	return o == d.of.Object
}

// decide remembers what is to be written of a JobSet, and nothing else of it; a plan
// without anything forgets it.
func (c *Cluster) decide(s *jobSet, plan jobSetPlan) {
	c.decided++
	c.decisions = slices.DeleteFunc(slices.Clone(c.decisions), func(d decision) bool {
		return d.of.UID == s.UID || !c.isUnderWay(d) || d.plan.writes() == 0 && !c.current(d)
	})
	if plan.writes() > 0 || !plan.refused && !plan.status.equal(&s.status) {
		c.decisions = append(c.decisions, decision{s, plan, c.Now()})
	}
}

func (plan *jobSetPlan) writes() int {
	return len(plan.create) + len(plan.suspend) + len(plan.resume) + len(plan.delete)
}

// first is the plan up to the first write: where a reconcile breaks off, or begins anew
// before its cache shows all that the last one wrote.
func (plan *jobSetPlan) first() jobSetPlan {
	one := jobSetPlan{refused: true}
	switch {
	case len(plan.create) > 0:
		one.create = plan.create[:1]
	case len(plan.suspend) > 0:
		one.suspend = plan.suspend[:1]
	case len(plan.resume) > 0:
		one.resume = plan.resume[:1]
	default:
		one.delete = plan.delete[:1]
	}
	return one
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

// syncJobs writes Jobs, and keeps the status that follows for later. At a Job that has
// changed it breaks off.
func (c *Cluster) syncJobs(s *jobSet, plan jobSetPlan) {
	var errs []error
	for _, j := range plan.delete {
		_ = c.API.Delete(byJobSet, "Job", j.Namespace, j.Name, apiserver.Deletion{UID: j.UID, Propagation: apiserver.Foreground})
	}
	for _, n := range plan.create {
		errs = append(errs, c.createJob(s, n))
	}
	for _, j := range plan.suspend {
		_, err := c.API.Patch(byJobSet, "Job", j.Namespace, j.Name, object{"metadata": exactly(j), "spec": object{"suspend": true}}, "")
		errs = append(errs, err)
	}
	for _, j := range plan.resume {
		errs = append(errs, c.resumeJob(s, j))
	}
	left := jobSetPlan{refused: true}
	if errors.Join(errs...) == nil && !plan.refused {
		left = jobSetPlan{status: plan.status}
	}
	c.decide(s, left)
}

// exactly is the precondition that a Job is the version that was seen.
func exactly(j *job) object {
	return object{"uid": j.UID, "resourceVersion": strconv.FormatInt(j.Version, 10)}
}

func (c *Cluster) writeJobSetStatus(s *jobSet, status jobSetStatus) {
	c.decide(s, jobSetPlan{refused: true})
	_, _ = c.API.Update(byJobSet, s.Object, apiserver.Status, func(body map[string]any) { body["status"] = status.body() })
}

// resumeJob starts a Job. What of the pod template may have changed while the JobSet
// was suspended is merged into the Job's; nothing is taken away.
func (c *Cluster) resumeJob(s *jobSet, j *job) error {
	if j.status.startTime != "" {
		o, err := c.API.Patch(byJobSet, "Job", j.Namespace, j.Name, object{"metadata": exactly(j), "status": object{"startTime": nil}}, apiserver.Status)
		if err != nil {
			return err
		}
		j = jobOf(o)
	}
	i := slices.IndexFunc(s.replicated, func(r replicatedJob) bool { return r.name == j.replicatedJob })
	if i < 0 {
		return nil
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
	_, err := c.API.Patch(byJobSet, "Job", j.Namespace, j.Name, object{
		"metadata": exactly(j),
		"spec":     object{"suspend": false, "template": object{"metadata": metadata, "spec": spec}},
	}, "")
	return err
}
