package kueue

import (
	"slices"
	"strings"

	"rtj.dev/rtj/test/world/apiserver"
)

// place is where the queues have a Workload.
type place int

const (
	// nowhere: it holds quota, is on hold, has no queue, or the scheduler has it.
	nowhere place = iota
	// queued: it is tried in its turn.
	queued
	// parked: it was tried and had no room, or its back-off is not over; it waits until
	// something changes ("inadmissible" in Kueue).
	parked
)

// workload is what Kueue knows of a Workload.
type workload struct {
	seen  *apiserver.Object
	place place
	// counted is the quota that the scheduler has it hold; nil: none.
	counted *holding
	// sent is what Kueue last applied to status: what it owns there.
	sent map[string]any
}

// clusterQueue is what Kueue knows of a ClusterQueue.
type clusterQueue struct {
	seen *apiserver.Object
	// sticky is the UID of a preemptor, which stays at the head.
	sticky string
	// retry: something changed, and what is parked gets another try.
	retry bool
	// hopeless are the shapes of which one had no room: others of them are not tried.
	hopeless []string
}

// observe brings the queues and the scheduler's cache up to what the watches tell.
func (k *Kueue) observe() {
	now := k.API.Revision()
	if k.revision == now {
		return
	}
	since := k.revision
	k.revision = now
	changed := func(kind string) bool { return k.API.Changed(kind) > since }
	if changed("ResourceFlavor") {
		k.flavors = k.API.List("ResourceFlavor")
		k.retryAll()
	}
	if changed("AdmissionCheck") {
		k.checks = k.API.List("AdmissionCheck")
		k.retryAll()
	}
	if changed("ClusterQueue") {
		k.observeClusterQueues()
	}
	if changed("WorkloadPriorityClass") {
		k.observeClasses()
	}
	// A Workload that was created before the LocalQueue waits for it, and the other way
	// round; so the queues are known first.
	if changed("LocalQueue") {
		k.observeLocalQueues()
	}
	if changed("Workload") {
		k.observeWorkloads()
	}
}

func (k *Kueue) observeClusterQueues() {
	var queues []clusterQueue
	for _, o := range k.API.List("ClusterQueue") {
		q := clusterQueue{seen: o, retry: true}
		if old := k.queue(o.Name); old != nil && old.seen.UID == o.UID {
			q = *old
			q.retry = q.retry || old.seen.Generation != o.Generation
			q.seen = o
		}
		queues = append(queues, q)
	}
	k.queues = queues
	k.planned = false
	k.requeueOrphans()
}

func (k *Kueue) observeLocalQueues() {
	var locals []*apiserver.Object
	for _, o := range k.API.List("LocalQueue") {
		if !stopped(o) {
			locals = append(locals, o)
		}
	}
	k.locals = locals
	k.planned = false
	k.requeueOrphans()
}

// requeueOrphans: Workloads leave the queues with their LocalQueue, and come with it;
// then even those that Requeued=False or a back-off kept out are tried.
func (k *Kueue) requeueOrphans() {
	for i := range k.workloads {
		w := &k.workloads[i]
		switch q := k.queueOf(w.seen); {
		case q == nil && w.place != nowhere:
			k.leave(w)
		case q != nil && w.place == nowhere && w.counted == nil && admissible(w.seen):
			w.place = queued
		}
	}
}

func (k *Kueue) observeWorkloads() {
	was := k.workloads
	k.workloads = make([]workload, 0, len(was)+1)
	list := k.API.List("Workload")
	i := 0
	for _, o := range list {
		for i < len(was) && strings.Compare(was[i].seen.Key(), o.Key()) < 0 {
			k.gone(&was[i])
			i++
		}
		if i == len(was) || was[i].seen.Key() != o.Key() {
			k.workloads = append(k.workloads, workload{seen: o})
			k.created(&k.workloads[len(k.workloads)-1])
			continue
		}
		w := was[i]
		i++
		if w.seen.UID != o.UID {
			k.gone(&w)
			w = workload{seen: o}
			k.workloads = append(k.workloads, w)
			k.created(&k.workloads[len(k.workloads)-1])
			continue
		}
		k.workloads = append(k.workloads, w)
		if w.seen != o {
			k.updated(&k.workloads[len(k.workloads)-1], o)
		}
	}
	for ; i < len(was); i++ {
		k.gone(&was[i])
	}
}

// created, updated and gone are the handlers of the Workload controller's watch.
func (k *Kueue) created(w *workload) {
	k.planned = false
	if finished(w.seen) {
		return
	}
	if admissible(w.seen) {
		k.enqueue(w, nil)
		return
	}
	k.count(w)
}

func (k *Kueue) gone(w *workload) {
	k.planned = false
	k.retryFor(w.seen)
	k.unstick(w.seen.UID)
}

func (k *Kueue) updated(w *workload, o *apiserver.Object) {
	old := w.seen
	w.seen = o
	k.planned = false
	before, now := statusOf(old), statusOf(o)
	switch {
	case now == statusFinished || !active(o):
		k.leave(w)
		w.counted = nil
		k.retryFor(o)
	case before == statusPending && now == statusPending:
		switch {
		case onHold(o):
			k.leave(w)
		case w.counted != nil:
			// It was nominated: the scheduler would drop it from the queue again.
		case admissible(o):
			k.enqueue(w, old)
		}
	case before == statusPending:
		k.leave(w)
		k.count(w)
	case now == statusPending:
		w.counted = nil
		k.retryFor(o)
		if !k.backingOff(o) && admissible(o) {
			k.enqueue(w, nil)
		}
	default:
		if priorityChanged(old, o) || scaledDown(old, o) {
			k.retryFor(o)
		}
		k.count(w)
	}
}

// enqueue puts a Workload into the queue of its ClusterQueue, unless there is none. old
// is what it was before, if it may be there already: then it keeps its place unless it
// changed in a way that may help it.
func (k *Kueue) enqueue(w *workload, old *apiserver.Object) {
	q := k.queueOf(w.seen)
	if q == nil {
		k.leave(w)
		return
	}
	k.planned = false
	if w.place == parked && old != nil && !mayHelp(old, w.seen) {
		return
	}
	if w.place != queued && (k.waits(w.seen) || slices.Contains(q.hopeless, shapeOf(w.seen))) {
		w.place = parked
		return
	}
	w.place = queued
}

func mayHelp(old, now *apiserver.Object) bool {
	return old.Generation != now.Generation ||
		!apiserver.Same(old.Condition(evicted), now.Condition(evicted)) || !apiserver.Same(old.Condition(requeued), now.Condition(requeued))
}

func (k *Kueue) leave(w *workload) {
	w.place = nowhere
	k.planned = false
	k.unstick(w.seen.UID)
}

func (k *Kueue) unstick(uid string) {
	for i := range k.queues {
		if k.queues[i].sticky == uid {
			k.queues[i].sticky = ""
		}
	}
}

// waits: Requeued=False keeps it out until somebody sets it, requeueAt until then.
func (k *Kueue) waits(o *apiserver.Object) bool {
	return o.Condition(requeued)["status"] == "False" || k.backingOff(o)
}

func (k *Kueue) backingOff(o *apiserver.Object) bool {
	at := instant(o.Text("status", "requeueState", "requeueAt"))
	return !at.IsZero() && k.Now().Before(at)
}

func (k *Kueue) retryFor(o *apiserver.Object) {
	if q := k.queueOf(o); q != nil {
		q.retry = true
	}
}

func (k *Kueue) retryAll() {
	for i := range k.queues {
		k.queues[i].retry = true
	}
	k.planned = false
}

func (k *Kueue) queue(name string) *clusterQueue {
	for i := range k.queues {
		if k.queues[i].seen.Name == name {
			return &k.queues[i]
		}
	}
	return nil
}

// queueOf is the ClusterQueue in which a Workload waits; nil where the LocalQueue is
// stopped or either does not exist.
func (k *Kueue) queueOf(o *apiserver.Object) *clusterQueue {
	name := o.Text("spec", "queueName")
	for _, q := range k.locals {
		if q.Name == name && q.Namespace == o.Namespace {
			return k.queue(q.Text("spec", "clusterQueue"))
		}
	}
	return nil
}

func (k *Kueue) workload(o *apiserver.Object) *workload {
	for i := range k.workloads {
		if k.workloads[i].seen.UID == o.UID {
			return &k.workloads[i]
		}
	}
	return nil
}
