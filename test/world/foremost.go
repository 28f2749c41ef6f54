package world

import (
	"slices"
	"strings"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/stated"
)

// noRoom is what Kueue writes of a Workload that it cannot admit.
const noRoom = "kueue: find no room for "

// foremost is the job that goes before the others, by name: what it does commutes with
// all that they may do before it has done so. Empty: there is none.
//
// Jobs meet in Kueue only, and on the nodes. Where Kueue has nothing to do now but to
// find no room, the one that goes first is
//
//   - one that waits for quota, if the holder keeps what it has until time passes: what
//     the others do is then over before the holder can make a difference to them, and
//     what differs in them is forgotten before it is told apart at each of its steps;
//   - else the holder, if nothing that the others do has Kueue take the quota away from
//     it: it was evicted already, or none of the others goes before it.
func (w *World) foremost() string {
	if w.people.acts > 0 && !w.people.done {
		return ""
	}
	var held *apiserver.Object
	for _, o := range w.api.List("Workload") {
		if !o.True("QuotaReserved") || o.True("Finished") {
			continue
		}
		if held != nil {
			return ""
		}
		held = o
	}
	if held == nil {
		return ""
	}
	holder := w.ownerName(held)
	if holder == "" || !held.True("Evicted") && w.outranked(held, holder) {
		return ""
	}
	ready, waiting, keeps := false, "", w.keepsQuota(held, holder)
	for e := range w.events() {
		job := jobOf(e.Name)
		switch {
		case !e.helps || aboutQueues(e.Name):
		case strings.HasPrefix(e.Name, noRoom) && job != holder:
			// It says so in that Workload, and takes nothing from the other.
			waiting = job
		case strings.HasPrefix(e.Name, "kueue: "), job == "":
			return ""
		case job != holder:
			waiting = job
		default:
			ready = true
			// Its workers may be about to finish, or to fail.
			keeps = keeps && !strings.HasPrefix(e.Name, "trainer: ")
		}
	}
	switch {
	case keeps && waiting != "":
		return waiting
	case ready && !w.runsBeside(holder):
		return holder
	}
	return ""
}

// runsBeside tells whether pods of other jobs may run.
func (w *World) runsBeside(holder string) bool {
	for _, pod := range w.api.List("Pod") {
		if mayRun(pod) && jobOf("pod: "+pod.Key()) != holder {
			return true
		}
	}
	return false
}

// endings are the conditions of a Job or pod that ended, or is about to.
var endings = []string{"Failed", "Complete", "FailureTarget", "SuccessCriteriaMet", "DisruptionTarget"}

// keepsQuota tells whether a job keeps the quota that its Workload holds until time
// passes, or its workers do something: nobody has asked it to end or edited it, it
// launches its first attempt or runs one already, and nothing of that has ended. Where
// failures last, or the store is not what it was, a launch may come to nothing.
func (w *World) keepsQuota(held *apiserver.Object, name string) bool {
	job := w.api.Get(jobKind, namespace, name)
	if held.True("Evicted") || held.Deleting() || job == nil || job.Deleting() || stated.Ended(job) || job.Bool("spec", "suspend") ||
		job.Generation != job.Int("status", "observedGeneration") || job.At("status", "yield") != nil || job.At("status", "hold") != nil ||
		!w.healsAt.IsZero() || !w.damagedAt.IsZero() {
		return false
	}
	runs := false
	for _, o := range w.api.Owned("JobSet", job.UID) {
		if o.Deleting() || o.True("Completed") || o.True("Failed") {
			return false
		}
		runs = runs || !o.Bool("spec", "suspend")
	}
	for _, kind := range []string{"Job", "Pod"} {
		for _, o := range w.api.List(kind) {
			if o.Label(labelUID) == job.UID && (o.Deleting() || !mayRun(o) || slices.ContainsFunc(endings, o.True)) {
				return false
			}
		}
	}
	return runs || job.At("status", "lastEnd") == nil
}

func (w *World) ownerName(o *apiserver.Object) string {
	for _, job := range w.api.List(jobKind) {
		if job.UID == o.Owner() {
			return job.Name
		}
	}
	return ""
}

// outranked tells whether a job of higher priority may still want the quota that a
// Workload holds.
func (w *World) outranked(o *apiserver.Object, name string) bool {
	for i := range w.people.plans {
		plan := &w.people.plans[i]
		if plan.name == name || plan.spec["priorityClassName"] == nil || o.Int("spec", "priority") > 0 {
			continue
		}
		if job := w.api.Get(jobKind, namespace, plan.name); job == nil && plan.again > 0 || job != nil && !stated.Ended(job) {
			return true
		}
	}
	return false
}

// jobOf is the job that an event is about, by its name; empty where that is not one.
func jobOf(event string) string {
	_, what, _ := strings.Cut(event, ": ")
	_, key, ok := strings.Cut(what, namespace+"/")
	if !ok {
		return ""
	}
	end := strings.IndexAny(key, "- ")
	if end < 0 {
		return key
	}
	return key[:end]
}
