package world

import (
	"strings"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/stated"
)

// noRoom is what Kueue writes of a Workload that it cannot admit.
const noRoom = "kueue: find no room for "

// foremost is the job that goes before the others, by name: what it does commutes with
// all that they may do before it has done so. Empty: there is none.
//
// Jobs meet in Kueue only, and on the nodes. So it is the one that holds the quota,
// where Kueue has nothing to do now, and nothing that the others do has Kueue take the
// quota away from it: it was evicted already, or none of the others goes before it.
func (w *World) foremost() string {
	if w.people.acts > 0 && !w.people.done {
		return ""
	}
	holder := ""
	for _, o := range w.api.List("Workload") {
		if !o.True("QuotaReserved") || o.True("Finished") {
			continue
		}
		name := w.ownerName(o)
		if holder != "" || name == "" || !o.True("Evicted") && w.outranked(o, name) {
			return ""
		}
		holder = name
	}
	if holder == "" {
		return ""
	}
	for _, pod := range w.api.List("Pod") {
		if mayRun(pod) && jobOf("pod: "+pod.Key()) != holder {
			return ""
		}
	}
	ready := false
	for e := range w.events() {
		switch {
		case !e.helps || aboutQueues(e.Name):
		case strings.HasPrefix(e.Name, noRoom) && jobOf(e.Name) != holder:
			// It says so in that Workload, and takes nothing from the other.
		case strings.HasPrefix(e.Name, "kueue: "), jobOf(e.Name) == "":
			return ""
		case jobOf(e.Name) == holder:
			ready = true
		}
	}
	if !ready {
		return ""
	}
	return holder
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
