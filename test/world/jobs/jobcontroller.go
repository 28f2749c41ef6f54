package jobs

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
)

// byJob signs the writes of the Job controller.
const byJob = "job"

// jobPlan is what the Job controller would write now. Its writes come in this order,
// each of them when the engine has it happen: pods, then the status, then the
// finalizers of pods that the status has counted.
type jobPlan struct {
	deletePods []*pod
	// release has the finalizer of a deleted pod removed first: it does not count.
	release bool
	// create are the indexes of the pods to create; -1 without an index.
	create []int64
	// statuses to write, of which one is chosen.
	statuses []namedStatus
	// letGo are the pods that were counted.
	letGo []*pod
}

// namedStatus is one way to go on. Several differ in which failed pod the message
// names, since the controller looks at pods in no order; or in whether what was counted
// is written before the last condition, as it is when a sync broke off before.
type namedStatus struct {
	name   string
	status jobStatus
}

func (c *Cluster) jobEvents(add func(event.Event)) {
	for _, o := range c.API.List("Job") {
		j := jobOf(o)
		if j.finished() || !managed(o) {
			continue
		}
		plan := c.planJob(j)
		switch key := o.Key(); {
		case len(plan.deletePods)+len(plan.create) > 0:
			add(event.Event{Name: "job: pods " + key, Do: func() { c.syncPods(j, plan) }})
		case len(plan.statuses) > 0:
			for _, s := range plan.statuses {
				add(event.Event{Name: "job: " + s.name, Do: func() { c.writeJobStatus(j, s.status) }})
			}
		case len(plan.letGo) > 0:
			add(event.Event{Name: "job: finalizers " + key, Do: func() {
				for _, p := range plan.letGo {
					c.letGo(p)
				}
			}})
		}
	}
	for _, o := range c.API.List("Pod") {
		if p := podOf(o); p.tracked && c.orphaned(p) {
			add(event.Event{Name: "job: orphan " + o.Key(), Do: func() { c.letGo(p) }})
		}
	}
}

// managed tells whether the controllers here are those of a Job or JobSet.
func managed(o *apiserver.Object) bool {
	by := o.Text("spec", "managedBy")
	return by == "" || by == batchv1.JobControllerName || by == jobSetController
}

// orphaned: its Job is gone, or ended without it.
func (c *Cluster) orphaned(p *pod) bool {
	for _, o := range c.API.List("Job") {
		if o.UID == p.job {
			return jobOf(o).finished()
		}
	}
	return true
}

// planJob is one sync of the Job controller.
func (c *Cluster) planJob(j *job) (plan jobPlan) {
	pods := c.podsOf(j.UID)
	now := c.Now()
	next := j.status
	next.uncount(pods)
	var active []*pod
	var terminating, ready int64
	failed := next.failed + int64(len(next.uncountedFailed))
	succeeded := next.succeeded + int64(len(next.uncountedSucceeded))
	completed := next.completed
	for _, p := range pods {
		switch {
		case p.active():
			active = append(active, p)
			if p.ready {
				ready++
			}
		case p.terminating():
			terminating++
		}
		if !p.tracked || !j.valid(p) {
			continue
		}
		if p.phase == corev1.PodSucceeded {
			if j.indexed {
				completed = completed.with(p.index)
			} else if !slices.Contains(next.uncountedSucceeded, p.UID) {
				succeeded++
			}
		} else if j.podFailed(p) && !slices.Contains(next.uncountedFailed, p.UID) && !j.judge(p).ignored {
			failed++
		}
	}
	if j.indexed {
		succeeded = int64(len(completed))
	}
	if next.startTime == "" && !j.suspend {
		next.startTime = timestamp(now)
	}

	ends := c.ends(j, &next, pods, failed)
	if len(ends) > 0 {
		plan.deletePods = active
	} else if !j.Deleting() {
		plan.managePods(j, pods, active, succeeded, terminating, completed)
		for n := range plan.create {
			if !c.mayCreate("Pod", j.Namespace, n) {
				plan.create = plan.create[:n]
				break
			}
		}
	}
	if len(plan.deletePods)+len(plan.create) > 0 {
		return plan
	}

	next.active, next.ready, next.terminating = int64(len(active)), ready, terminating
	if len(ends) == 0 {
		complete := j.completions >= 0 && succeeded >= j.completions || j.completions < 0 && succeeded > 0
		switch {
		case complete && len(active) == 0:
			ends = []end{{kind: batchv1.JobSuccessCriteriaMet, reason: batchv1.JobReasonCompletionsReached, message: "Reached expected number of succeeded pods"}}
		case j.Deleting():
		case j.suspend:
			if !next.is(batchv1.JobSuspended) {
				next.startTime = ""
			}
			next.set(now, batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended")
		case next.is(batchv1.JobSuspended):
			next.set(now, batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "Job resumed")
			next.startTime = timestamp(now)
		}
	}
	if len(ends) == 0 {
		plan.finish(c, j, next, pods, end{}, false)
		return plan
	}
	for _, e := range ends {
		plan.finish(c, j, next, pods, e, len(ends) > 1)
	}
	return plan
}

// valid: it has an index that the Job asks for.
func (j *job) valid(p *pod) bool {
	return !j.indexed || p.index >= 0 && p.index < j.completions
}

// uncount counts the pods whose finalizer is gone.
func (s *jobStatus) uncount(pods []*pod) {
	tracked := func(uid string) bool {
		return slices.ContainsFunc(pods, func(p *pod) bool { return p.UID == uid && p.tracked })
	}
	keep := func(uids []string, counted *int64) (kept []string) {
		for _, uid := range uids {
			if tracked(uid) {
				kept = append(kept, uid)
			} else {
				*counted++
			}
		}
		return kept
	}
	s.uncountedFailed = keep(s.uncountedFailed, &s.failed)
	s.uncountedSucceeded = keep(s.uncountedSucceeded, &s.succeeded)
}

// end is how a Job ends: SuccessCriteriaMet or FailureTarget.
type end struct {
	kind            batchv1.JobConditionType
	reason, message string
	// pod by which it is known, if there are several.
	pod string
}

// ends are the ways in which a Job may end now. What was written before stands; then
// the podFailurePolicy decides, then the numbers.
func (c *Cluster) ends(j *job, s *jobStatus, pods []*pod, failed int64) (ends []end) {
	for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobFailureTarget} {
		if s.is(kind) {
			condition := conditionIn(s.conditions, string(kind))
			return []end{{kind: kind, reason: text(condition, "reason"), message: text(condition, "message")}}
		}
	}
	for _, p := range pods {
		if !j.podFailed(p) {
			continue
		}
		if v := j.judge(p); v.message != "" {
			ends = append(ends, end{batchv1.JobFailureTarget, batchv1.JobReasonPodFailurePolicy, v.message, p.Name})
		}
	}
	switch {
	case len(ends) > 0:
	case failed > j.backoffLimit:
		ends = []end{{kind: batchv1.JobFailureTarget, reason: batchv1.JobReasonBackoffLimitExceeded, message: "Job has reached the specified backoff limit"}}
	case c.pastDeadline(j):
		ends = []end{{kind: batchv1.JobFailureTarget, reason: batchv1.JobReasonDeadlineExceeded, message: "Job was active longer than specified deadline"}}
	}
	return ends
}

// deadlineOf a Job; zero when there is none.
func (c *Cluster) deadlineOf(j *job) time.Time {
	if j.deadline < 0 || j.status.startTime == "" || j.suspend || j.finished() {
		return time.Time{}
	}
	return moment(j.status.startTime).Add(time.Duration(j.deadline) * time.Second)
}

func (c *Cluster) pastDeadline(j *job) bool {
	due := c.deadlineOf(j)
	return !due.IsZero() && !c.Now().Before(due)
}

// managePods has as many pods as the Job wants: none while it is suspended.
func (plan *jobPlan) managePods(j *job, pods, active []*pod, succeeded, terminating int64, completed indexes) {
	if j.suspend {
		plan.deletePods, plan.release = active, true
		return
	}
	want := min(j.completions-succeeded, j.parallelism)
	if j.completions < 0 {
		if want = j.parallelism; succeeded > 0 {
			want = int64(len(active))
		}
	}
	want = max(want, 0)
	if surplus := int64(len(active)) - want; surplus > 0 {
		plan.deletePods, plan.release = active[int64(len(active))-surplus:], true
		return
	}
	if !j.replacesOnlyFailed {
		terminating = 0
	}
	missing := want - terminating - int64(len(active))
	for i := int64(0); missing > 0; i++ {
		if !j.indexed {
			plan.create = append(plan.create, -1)
			missing--
			continue
		}
		if i >= j.completions {
			return
		}
		taken := completed.has(i) || slices.ContainsFunc(pods, func(p *pod) bool {
			return p.index == i && (p.active() || j.replacesOnlyFailed && p.terminating())
		})
		if !taken {
			plan.create = append(plan.create, i)
			missing--
		}
	}
}

// finish adds the status that follows from the pods: those that ended are noted,
// then lose their finalizer, then count. The last condition waits until no pod
// terminates and all are counted.
func (plan *jobPlan) finish(c *Cluster, j *job, next jobStatus, pods []*pod, e end, several bool) {
	failing := e.kind == batchv1.JobFailureTarget
	var letGo []*pod
	// Each way in which the Job may end appends to lists of its own.
	next.uncountedFailed, next.uncountedSucceeded = slices.Clip(next.uncountedFailed), slices.Clip(next.uncountedSucceeded)
	for _, p := range pods {
		if !p.tracked {
			continue
		}
		failed := j.podFailed(p)
		if !j.Deleting() && e.kind == "" && p.phase != corev1.PodSucceeded && !failed {
			continue
		}
		letGo = append(letGo, p)
		switch {
		case p.phase == corev1.PodSucceeded && !slices.Contains(next.uncountedFailed, p.UID):
			if j.indexed {
				if j.valid(p) {
					next.completed = next.completed.with(p.index)
				}
			} else if !slices.Contains(next.uncountedSucceeded, p.UID) {
				next.uncountedSucceeded = append(next.uncountedSucceeded, p.UID)
			}
		case failed || failing:
			// When the Job fails, every pod that has not ended is taken for failed.
			if j.valid(p) && !slices.Contains(next.uncountedFailed, p.UID) && !j.judge(p).ignored {
				next.uncountedFailed = append(next.uncountedFailed, p.UID)
			}
		}
	}
	if j.indexed {
		next.succeeded = int64(len(next.completed))
	}
	name := "status " + j.Key()
	if several {
		name += " by " + e.pod
	}
	if e.kind != "" {
		if !next.is(e.kind) {
			next.set(c.Now(), e.kind, corev1.ConditionTrue, e.reason, e.message)
		} else if next.sameBut(&j.status) && len(letGo) == 0 && next.terminating == 0 && len(next.uncountedFailed)+len(next.uncountedSucceeded) == 0 {
			if next.worthWriting(&j.status) {
				plan.statuses = append(plan.statuses, namedStatus{"count " + j.Key(), next})
			}
			if next.startTime == "" {
				// The API server refuses a finished Job without a startTime, and a Job has
				// none while it is suspended: it ends when it is resumed.
				return
			}
			kind := batchv1.JobComplete
			if failing {
				kind = batchv1.JobFailed
			} else {
				next.completionTime = timestamp(c.Now())
			}
			next.set(c.Now(), kind, corev1.ConditionTrue, e.reason, e.message)
		}
	}
	if next.worthWriting(&j.status) {
		plan.statuses = append(plan.statuses, namedStatus{name, next})
		return
	}
	plan.letGo = letGo
}

// sameBut tells whether all that differs is that pods without a finalizer are counted:
// the last condition is written with that, and with nothing else.
func (s *jobStatus) sameBut(was *jobStatus) bool {
	compared := *s
	compared.succeeded, compared.failed = was.succeeded, was.failed
	compared.uncountedSucceeded, compared.uncountedFailed = was.uncountedSucceeded, was.uncountedFailed
	return !compared.worthWriting(was)
}

// worthWriting: startTime alone is not.
func (s *jobStatus) worthWriting(was *jobStatus) bool {
	compared := *s
	compared.startTime = was.startTime
	return !compared.equal(was)
}

func (c *Cluster) writeJobStatus(j *job, s jobStatus) {
	// Nothing came between.
	_, _ = c.API.Update(byJob, j.Object, apiserver.Status, func(body map[string]any) { body["status"] = s.body() })
}

// syncPods deletes or creates.
func (c *Cluster) syncPods(j *job, plan jobPlan) {
	for _, p := range plan.deletePods {
		if plan.release && p.tracked {
			c.letGo(p)
		}
		// Who was faster has done it.
		_ = c.API.Delete(byJob, "Pod", p.Namespace, p.Name, apiserver.Deletion{UID: p.UID})
	}
	for _, i := range plan.create {
		c.createPod(j, i)
	}
}

// letGo removes the tracking finalizer.
func (c *Cluster) letGo(p *pod) {
	var rest any
	if names := slices.DeleteFunc(slices.Clone(p.Finalizers()), func(f string) bool { return f == batchv1.JobTrackingFinalizer }); len(names) > 0 {
		rest = anys(names)
	}
	_, _ = c.API.Patch(byJob, "Pod", p.Namespace, p.Name, object{"metadata": object{"uid": p.UID, "finalizers": rest}}, "")
}
