package world

import (
	"fmt"
	"slices"
	"strings"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/runner"
	"rtj.dev/rtj/test/world/stated"
)

// settled tells whether nothing happens any more that is not a fault or a person,
// nothing that failed is to be tried again, no pod is on its way out, and every job rests.
func (w *World) settled() bool {
	for c := range w.events() {
		if c.helps {
			return false // so it is nearly always
		}
	}
	for _, uid := range w.promises.order {
		if !w.promises.lives[uid].rests(w) {
			return false
		}
	}
	if slices.ContainsFunc(w.api.List("Pod"), (*apiserver.Object).Deleting) {
		return false
	}
	// What is offered may have instances forget jobs that are gone.
	return !slices.ContainsFunc(w.runners, (*runner.Runner).Retries)
}

// rests tells whether the job is where it stays until somebody acts.
func (l *life) rests(w *World) bool {
	switch {
	case l.gone:
		return true
	case l.job.Deleting():
		return false
	case l.job.Int("status", "observedGeneration") != l.job.Generation:
		return false
	case stated.Ended(l.job), l.job.Text("status", "phase") == "Paused", l.waitsForPeople(w):
		return true
	}
	return l.job.Text("status", "phase") == "Queued" && !w.config.fits(l.job)
}

// waitsForPeople: nothing goes on until somebody acts.
func (l *life) waitsForPeople(w *World) bool {
	switch l.job.Condition("Ready")["reason"] {
	case v1beta1.ReasonInadmissible:
		return w.api.Get("LocalQueue", namespace, "queue") == nil
	case v1beta1.ReasonDeactivated, v1beta1.ReasonNoCompatibleCheckpoint, v1beta1.ReasonQueueNotFound:
		return l.job.Text("status", "phase") != "Starting"
	}
	return false
}

// fits tells whether the job may be admitted at all: its pods are one podSet, which
// is admitted in one flavor.
func (c Config) fits(job *apiserver.Object) bool {
	for _, quota := range c.Quotas {
		if pods(job) <= quota {
			return true
		}
	}
	return false
}

// pods that the job asks for.
func pods(job *apiserver.Object) (n int64) {
	for _, item := range job.List("spec", "template", "spec", "replicatedJobs") {
		r, _ := item.(map[string]any)
		n += podsOf(&apiserver.Object{Body: r})
	}
	return n
}

// podsOf a replicatedJob.
func podsOf(replicated *apiserver.Object) int64 {
	return max(replicated.Int("replicas"), 1) * max(replicated.Int("template", "spec", "parallelism"), 1)
}

// standing of the job in a line.
func (l *life) standing() string {
	if l.gone {
		return l.name + " is gone"
	}
	text := fmt.Sprintf("%s is %s", l.name, l.job.Text("status", "phase"))
	if ready := l.job.Condition("Ready"); ready != nil {
		text += fmt.Sprintf(" (%v: %v)", ready["reason"], ready["message"])
	}
	if l.job.Deleting() {
		text += ", being deleted"
	}
	return text
}

// unsettled tells what does not rest.
func (w *World) unsettled() string {
	var lines []string
	for _, uid := range w.promises.order {
		if l := w.promises.lives[uid]; !l.rests(w) {
			lines = append(lines, l.standing())
		}
	}
	for _, pod := range w.api.List("Pod") {
		if pod.Deleting() {
			lines = append(lines, pod.Name+" is on its way out")
		}
	}
	for c := range w.events() {
		if c.helps {
			lines = append(lines, "still possible: "+c.Name)
		}
	}
	return strings.Join(lines, "; ")
}

func nothingDrains(_ *World, l *life) string {
	if !l.gone && l.job.Text("status", "phase") == "Draining" {
		return l.standing()
	}
	return ""
}

// quotaIsUsed: at rest no job runs, so that no Workload of one holds quota, unless it
// was deactivated, which takes the quota away and is for a person to undo.
func quotaIsUsed(w *World, l *life) string {
	for _, o := range w.api.Owned("Workload", l.uid) {
		if o.True("QuotaReserved") && !o.True("Finished") {
			return fmt.Sprintf("%s holds quota, and %s", o.Name, l.standing())
		}
	}
	return ""
}

func nothingRuns(w *World, l *life) string {
	for _, pod := range w.api.List("Pod") {
		if pod.Label(labelUID) == l.uid && mayRun(pod) && !l.isForced(stated.Attempt(pod)) {
			return fmt.Sprintf("%s is left, and %s", pod.Name, l.standing())
		}
	}
	return ""
}

func deletedIsGone(w *World, l *life) string {
	if !l.gone {
		return ""
	}
	for _, kind := range []string{"Workload", "JobSet", "ConfigMap"} {
		for _, o := range w.api.Owned(kind, l.uid) {
			return o.String() + " is left"
		}
	}
	return ""
}

// asAsked: paused where the spec says so, else finished, unless the training fails by
// itself or something is for a person to do.
func asAsked(w *World, l *life) string {
	if l.gone || stated.Ended(l.job) || l.waitsForPeople(w) {
		return ""
	}
	paused := l.job.Text("status", "phase") == "Paused"
	if paused == l.job.Bool("spec", "suspend") && (paused || !w.config.fits(l.job)) {
		return ""
	}
	return l.standing()
}
