package kueue

import (
	"fmt"
	"maps"
	"slices"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
)

// plan is what the scheduler does next in a ClusterQueue.
type plan struct {
	queue string
	head  *apiserver.Object // nil: nothing
	found assignment
	// evict are the targets that are not evicted yet.
	evict []*holding
	// parks: the head had no room, and another is tried.
	parks bool
	// tell is the message that the head's condition gets; empty: it has it already.
	tell string
}

// scheduleEvents offers the next act of the scheduler in each ClusterQueue, and another
// try of what is parked.
func (k *Kueue) scheduleEvents(add func(event.Event)) {
	for i := range k.queues {
		if q := &k.queues[i]; q.retry && k.retries(q) {
			add(event.Event{Name: "kueue: try again in " + q.seen.Name, Do: func() { k.observe(); k.retryNow(q.seen.Name) }})
		}
	}
	// The scheduler waits for its own writes, but for those of admissions.
	if slices.ContainsFunc(k.writes, func(w write) bool { return w.blocks }) {
		return
	}
	k.makePlans()
	for _, p := range k.plans {
		if name := p.name(k.config.Late); name != "" {
			add(event.Event{Name: name, Do: func() { k.act(name) }})
		}
	}
}

func (p plan) name(late bool) string {
	switch {
	case p.head == nil:
		return ""
	case p.found.mode == fits && late:
		return "kueue: nominate " + p.head.Key()
	case p.found.mode == fits:
		return "kueue: admit " + p.head.Key()
	case len(p.evict) > 0:
		return "kueue: preempt for " + p.head.Key()
	case p.tell != "":
		return "kueue: find no room for " + p.head.Key()
	}
	return ""
}

// act does the planned act of that name, if it is still the next.
func (k *Kueue) act(name string) {
	k.observe()
	k.makePlans()
	for _, p := range k.plans {
		if p.name(k.config.Late) == name {
			k.schedule(p)
			return
		}
	}
}

// retries reports whether anything parked could be tried again.
func (k *Kueue) retries(q *clusterQueue) bool {
	return slices.ContainsFunc(k.workloads, func(w workload) bool {
		return w.place == parked && k.queueOf(w.seen) == q && !k.waits(w.seen)
	})
}

// Overlooks reports whether a Workload is put aside that has room, and that nothing will
// have tried again: one of its shape had none while its LocalQueue was stopped, and what
// was in the way went meanwhile. Kueue remembers the shape until something ends in a
// LocalQueue that is not stopped. An administrator's remedy is [Kueue.Restart].
func (k *Kueue) Overlooks() bool {
	k.observe()
	k.makePlans()
	return slices.ContainsFunc(k.workloads, func(w workload) bool {
		q := k.queueOf(w.seen)
		return w.place == parked && q != nil && !q.retry && !k.waits(w.seen) && k.queueActive(q.seen) &&
			slices.Contains(q.hopeless, shapeOf(w.seen)) && k.assign(w.seen, q).mode == fits
	})
}

func (k *Kueue) retryNow(name string) {
	q := k.queue(name)
	if q == nil {
		return
	}
	q.retry, q.hopeless = false, nil
	for i := range k.workloads {
		if w := &k.workloads[i]; w.place == parked && k.queueOf(w.seen) == q && !k.waits(w.seen) {
			w.place = queued
		}
	}
	k.planned = false
}

// makePlans brings the plans up to date. Heads without room that have been told so are
// parked here: nobody sees that.
func (k *Kueue) makePlans() {
	if k.planned {
		return
	}
	k.planned = true
	k.plans = nil
	for i := range k.queues {
		q := &k.queues[i]
		if q.retry && !k.retries(q) {
			q.retry, q.hopeless = false, nil
		}
		if !k.queueActive(q.seen) {
			continue
		}
		for {
			head := k.head(q)
			if head == nil {
				break
			}
			p := k.try(q, head.seen)
			if p.parks && p.tell == "" {
				k.park(q, head)
				continue
			}
			k.plans = append(k.plans, p)
			break
		}
	}
}

// head is what is tried next in a ClusterQueue.
func (k *Kueue) head(q *clusterQueue) (head *workload) {
	for i := range k.workloads {
		w := &k.workloads[i]
		if w.place == queued && k.queueOf(w.seen) == q && (head == nil || ahead(w.seen, head.seen, q.sticky)) {
			head = w
		}
	}
	return head
}

// park puts a head aside, and with it all that would get the same answer.
func (k *Kueue) park(q *clusterQueue, head *workload) {
	head.place = parked
	if quotaOf(q.seen).strict || failedChecks(head.seen) {
		return
	}
	shape := shapeOf(head.seen)
	if !slices.Contains(q.hopeless, shape) {
		q.hopeless = append(slices.Clip(q.hopeless), shape)
	}
	for i := range k.workloads {
		if w := &k.workloads[i]; w.place == queued && k.queueOf(w.seen) == q && shapeOf(w.seen) == shape {
			w.place = parked
		}
	}
}

// try finds out what can be done for a head.
func (k *Kueue) try(q *clusterQueue, head *apiserver.Object) plan {
	p := plan{queue: q.seen.Name, head: head}
	if failedChecks(head) {
		p.parks = true
		p.tell = k.news(head, "The workload has failed admission checks")
		return p
	}
	p.found = k.assign(head, q)
	switch {
	case p.found.mode == fits:
		return p
	case len(p.found.targets) > 0:
		for _, t := range p.found.targets {
			if !t.object.True(evicted) {
				p.evict = append(p.evict, t)
			}
		}
		p.tell = k.news(head, fmt.Sprintf("%s. Pending the preemption of %d workload(s)", p.found.message, len(p.found.targets)))
	default:
		// In a StrictFIFO queue it stays at the head.
		p.parks = !quotaOf(q.seen).strict
		p.tell = k.news(head, p.found.message)
	}
	return p
}

// news is the message, unless the Workload's condition has it.
func (k *Kueue) news(o *apiserver.Object, message string) string {
	c := o.Condition(quotaReserved)
	if c["status"] == "False" && c["reason"] == reasonPending && c["message"] == clip(message) && generationOf(c) == o.Generation && o.At("status", "admission") == nil {
		return ""
	}
	return message
}

// schedule does what is planned: one cycle of the scheduler.
func (k *Kueue) schedule(p plan) {
	q, w := k.queue(p.queue), k.workload(p.head)
	k.planned = false
	if p.found.mode == fits {
		k.nominate(q, w, p.found)
		return
	}
	for _, t := range p.evict {
		message := fmt.Sprintf("Preempted to accommodate a workload (UID: %s, JobUID: %s) due to prioritization in the ClusterQueue; preemptor path: /%s; preemptee path: /%s",
			p.head.UID, or(p.head.Label("kueue.x-k8s.io/job-uid"), "UNKNOWN"), p.queue, p.queue)
		k.later(write{what: "evict " + t.object.Key() + ", preempted", blocks: true, view: t.object,
			status: k.eviction(t.object, Preempted, message, func(s *status) {
				s.set(preempted, "True", "InClusterQueue", message, 0)
			})})
	}
	if p.parks {
		k.park(q, w)
	} else if len(p.found.targets) > 0 && !quotaOf(q.seen).strict {
		q.sticky = p.head.UID
	}
	if p.tell != "" {
		s := k.status(p.head)
		s.unreserve(reasonPending, p.tell)
		k.later(write{what: "tell " + p.head.Key() + " that it waits", blocks: true, view: p.head, status: s})
	}
}

// nominate takes the quota at once, and has the admission written.
func (k *Kueue) nominate(q *clusterQueue, w *workload, found assignment) {
	o := w.seen
	sets := demandOf(o)
	var assignments []any
	for i, set := range sets {
		flavors, usage := map[string]any{}, map[string]any{}
		for res, flavor := range found.flavors[i] {
			flavors[res] = flavor
			usage[res] = quantity(res, set.requests[res]*found.counts[i])
		}
		a := map[string]any{"name": set.name, "count": found.counts[i]}
		if len(flavors) > 0 {
			a["flavors"], a["resourceUsage"] = flavors, usage
		}
		assignments = append(assignments, a)
	}
	s := k.status(o)
	s.body["admission"] = map[string]any{"clusterQueue": q.seen.Name, "podSetAssignments": assignments}
	s.set(quotaReserved, "True", "QuotaReserved", "Quota reserved in ClusterQueue "+q.seen.Name, o.Generation)
	for _, kind := range []string{evicted, preempted} {
		if c := s.condition(kind); c["status"] == "True" {
			was, _ := c["message"].(string)
			s.set(kind, "False", "QuotaReserved", "Previously: "+was, o.Generation)
		}
	}
	if s.hasChecks(requiredChecks(q.seen, s.body["admission"])) {
		s.syncAdmitted()
	}
	w.place = nowhere
	w.counted = &holding{object: assumed(o, s), queue: q.seen.Name, used: found.usage, since: k.Now()}
	k.unstick(o.UID)
	k.planned = false
	k.later(write{what: "admit " + o.Key(), admits: true, view: o, status: s})
}

// assumed is a Workload as the scheduler takes it to be from then on, though its
// admission is not written yet: who preempts it evicts what was admitted.
func assumed(o *apiserver.Object, s *status) *apiserver.Object {
	body := maps.Clone(o.Body)
	body["status"] = s.body
	return apiserver.Of(body)
}

func failedChecks(o *apiserver.Object) bool {
	return slices.ContainsFunc(objects(o.At("status", "admissionChecks")), func(c map[string]any) bool {
		return c["state"] == "Retry" || c["state"] == "Rejected"
	})
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
