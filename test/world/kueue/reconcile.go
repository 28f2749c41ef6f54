package kueue

import (
	"fmt"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
)

// act is one write of the Workload controller. It is made of the newest version, since a
// write of an older one would conflict and be made again.
type act struct {
	what string
	// One of these: a status to apply, or a change of spec or status to update.
	status       *status
	spec, update func(part map[string]any)
}

func (k *Kueue) reconcileEvents(add func(event.Event)) {
	for i := range k.workloads {
		o := k.workloads[i].seen
		if a := k.reconcile(o); a != nil {
			name := "kueue: " + a.what + " " + o.Key()
			add(event.Event{Name: name, Do: func() { k.reconcileNow(o.Namespace, o.Name, a.what) }})
		}
	}
}

// reconcileNow does the act of that name if it is still due.
func (k *Kueue) reconcileNow(namespace, name, what string) {
	k.observe()
	o := k.API.Get("Workload", namespace, name)
	if o == nil {
		return
	}
	a := k.reconcile(o)
	if a == nil || a.what != what {
		return
	}
	// A refusal is logged and tried again, as here.
	switch {
	case a.status != nil:
		_ = k.apply(o, a.status)
	case a.spec != nil:
		_, _ = k.API.Update(by, o, "", func(body map[string]any) { a.spec(below(body, "spec")) })
	default:
		_, _ = k.API.Update(by, o, apiserver.Status, func(body map[string]any) { a.update(below(body, "status")) })
	}
}

// reconcile is the Workload controller: the first thing that is due, or nil.
func (k *Kueue) reconcile(o *apiserver.Object) *act {
	if k.orphaned(o) {
		return k.finishOrphan(o)
	}
	if finished(o) {
		return nil
	}
	if at := retryAt(o); at.After(k.Now()) && instant(o.Text("status", "requeueState", "requeueAt")).Before(at) {
		s := k.status(o)
		s.requeueAt(at)
		return &act{what: "set the time of another try of", status: s}
	}
	if active(o) {
		if a, over := k.reconcileActive(o); a != nil || over {
			return a
		}
	} else if a := k.reconcileInactive(o); a != nil {
		return a
	}
	local := k.API.Get("LocalQueue", o.Namespace, o.Text("spec", "queueName"))
	running := local != nil && !stopped(local)
	if running && waitsFor(o, LocalQueueStopped) {
		return k.requeue(o, "LocalQueueRestarted", "The LocalQueue was restarted after being stopped")
	}
	if a := k.reconcileGate(o); a != nil {
		return a
	}
	// While its LocalQueue is stopped Kueue finds no ClusterQueue for a Workload.
	var cluster *apiserver.Object
	if q := k.queueOf(o); q != nil {
		cluster = q.seen
		if !stopped(cluster) && waitsFor(o, ClusterQueueStopped) {
			return k.requeue(o, "ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped")
		}
		if a := k.syncChecks(o, cluster); a != nil {
			return a
		}
	}
	if !o.True(admitted) {
		s := k.status(o)
		changed := false
		if !o.True(quotaReserved) {
			if why := k.blocked(o, local, cluster); why != "" {
				changed = s.set(quotaReserved, "False", reasonInadmissible, why, o.Generation)
			}
		}
		if s.syncAdmitted() || changed {
			what := "refuse"
			switch {
			case s.true(admitted):
				what = "admit, with its checks,"
			case local != nil && !stopped(local):
				what = missable
			}
			return &act{what: what, status: s}
		}
	}
	if !o.True(quotaReserved) {
		return nil
	}
	for _, step := range []func() *act{
		func() *act { return k.reconcileFailedChecks(o) },
		func() *act {
			return k.reconcileQueue(o, local, LocalQueueStopped, "LocalQueue", o.Text("spec", "queueName"))
		},
		func() *act {
			if cluster == nil {
				return k.reconcileQueue(o, nil, ClusterQueueStopped, "ClusterQueue", "")
			}
			return k.reconcileQueue(o, cluster, ClusterQueueStopped, "ClusterQueue", cluster.Name)
		},
		func() *act { return k.reconcilePodsReady(o) },
		func() *act { return k.reconcileExecutionTime(o) },
	} {
		if a := step(); a != nil {
			return a
		}
	}
	return nil
}

// reconcileActive: over means that the controller goes no further by now.
func (k *Kueue) reconcileActive(o *apiserver.Object) (a *act, over bool) {
	if o.True(deactivationTarget) {
		return &act{what: "deactivate", spec: func(spec map[string]any) { spec["active"] = false }}, true
	}
	if at := instant(o.Text("status", "requeueState", "requeueAt")); !at.IsZero() {
		if k.Now().Before(at) {
			return nil, true
		}
		if statusOf(o) == statusPending {
			s := k.status(o)
			s.requeueAt(time.Time{})
			return &act{what: "end the back-off of", status: s}, true
		}
	}
	c := o.Condition(requeued)
	if c["status"] != "False" {
		return nil, false
	}
	switch c["reason"] {
	case Deactivated:
		return k.requeue(o, "Reactivated", "The workload was reactivated"), true
	case PodsReadyTimeout, AdmissionCheck:
		a := k.requeue(o, "BackoffFinished", "The workload backoff was finished")
		a.status.requeueAt(time.Time{})
		return a, true
	}
	return nil, false
}

func (k *Kueue) reconcileInactive(o *apiserver.Object) *act {
	if !o.True(evicted) {
		reason, message := Deactivated, "The workload is deactivated"
		if c := o.Condition(deactivationTarget); c != nil {
			reason += "DueTo" + fmt.Sprint(c["reason"])
			message += fmt.Sprintf(" due to %v", c["message"])
		}
		return &act{what: "evict", status: k.eviction(o, reason, message, (*status).clearDeactivation)}
	}
	if o.At("status", "requeueState") != nil {
		s := k.status(o)
		s.clearDeactivation()
		return &act{what: "forget the back-off of", status: s}
	}
	return nil
}

func (s *status) clearDeactivation() {
	s.remove(deactivationTarget)
	delete(s.body, "requeueState")
}

// missable is what Kueue may also not do until the Workload changes again: it looks when
// the ClusterQueue changes, and may then not know yet that the queue is stopped.
const missable = "refuse, for its ClusterQueue,"

func waitsFor(o *apiserver.Object, reason string) bool {
	c := o.Condition(requeued)
	return c["status"] == "False" && c["reason"] == reason
}

// requeue flips Requeued=False back.
func (k *Kueue) requeue(o *apiserver.Object, reason, message string) *act {
	s := k.status(o)
	s.set(requeued, "True", reason, message, o.Generation)
	return &act{what: "requeue", status: s}
}

// blocked is why a Workload cannot be queued. It is written over OnHold too.
func (k *Kueue) blocked(o, local, cluster *apiserver.Object) string {
	name := o.Text("spec", "queueName")
	switch {
	case local == nil:
		return fmt.Sprintf("LocalQueue %s doesn't exist", name)
	case stopped(local):
		return fmt.Sprintf("LocalQueue %s is inactive", name)
	case cluster == nil:
		return fmt.Sprintf("ClusterQueue %s doesn't exist", local.Text("spec", "clusterQueue"))
	case !k.queueActive(cluster):
		return fmt.Sprintf("ClusterQueue %s is inactive", cluster.Name)
	}
	return ""
}

// reconcileQueue: HoldAndDrain evicts what is admitted; what only waits for its checks
// loses its reservation by any stop, and by the queue's end.
func (k *Kueue) reconcileQueue(o, queue *apiserver.Object, reason, kind, name string) *act {
	if o.True(admitted) {
		if queue == nil || queue.Text("spec", "stopPolicy") != "HoldAndDrain" || o.True(evicted) {
			return nil
		}
		return &act{what: "evict", status: k.eviction(o, reason, "The "+kind+" is stopped", nil)}
	}
	var why string
	switch {
	case queue == nil || queue.Deleting():
		why = fmt.Sprintf("%s %s is terminating or missing", kind, name)
	case stopped(queue):
		why = fmt.Sprintf("%s %s is stopped", kind, name)
	default:
		return nil
	}
	s := k.status(o)
	if !s.unreserve(reasonInadmissible, why) {
		return nil
	}
	return &act{what: "take back the quota of", status: s}
}

// reconcileGate follows the annotation that gates the admission.
func (k *Kueue) reconcileGate(o *apiserver.Object) *act {
	gates := o.Annotation(gateAnnotation)
	isGated := o.Condition(quotaReserved)["reason"] == reasonGated
	s := k.status(o)
	switch {
	case gates == "" && isGated:
		s.unreserve(reasonPending, "AdmissionGatedBy cleared, waiting for quota reservation")
	case gates != "" && !isGated:
		s.unreserve(reasonGated, "Admission is gated by: "+gates)
	default:
		return nil
	}
	return &act{what: "mind the gates of", status: s}
}

// orphaned: nobody owns a Workload that a job once owned.
func (k *Kueue) orphaned(o *apiserver.Object) bool {
	return len(o.List("metadata", "ownerReferences")) == 0 && (o.Deleting() || o.Label("kueue.x-k8s.io/job-uid") != "")
}

func (k *Kueue) finishOrphan(o *apiserver.Object) *act {
	if finished(o) || o.Deleting() {
		return nil
	}
	s := k.status(o)
	s.set(finishedCondition, "True", "OwnerNotFound", "The workload's owner no longer exists", o.Generation)
	return &act{what: "finish the orphan", status: s}
}

func (k *Kueue) reconcileExecutionTime(o *apiserver.Object) *act {
	at := k.executionEnds(o)
	if at.IsZero() || k.Now().Before(at) || o.True(deactivationTarget) {
		return nil
	}
	s := k.status(o)
	s.set(deactivationTarget, "True", "MaximumExecutionTimeExceeded", "exceeding the maximum execution time", o.Generation)
	delete(s.body, "accumulatedPastExecutionTimeSeconds")
	return &act{what: "end the execution of", status: s}
}

func (k *Kueue) executionEnds(o *apiserver.Object) time.Time {
	if !o.True(admitted) || o.At("spec", "maximumExecutionTimeSeconds") == nil {
		return time.Time{}
	}
	left := o.Int("spec", "maximumExecutionTimeSeconds") - o.Int("status", "accumulatedPastExecutionTimeSeconds")
	return transition(o.Condition(admitted)).Add(time.Duration(left) * time.Second)
}

// due is when time alone has the controller do something; zero: never.
func (k *Kueue) due(o *apiserver.Object) time.Time {
	if finished(o) || !active(o) {
		return time.Time{}
	}
	var times []time.Time
	for _, t := range []time.Time{instant(o.Text("status", "requeueState", "requeueAt")), retryAt(o), k.podsReadyDeadline(o), k.executionEnds(o)} {
		if t.After(k.Now()) {
			times = append(times, t)
		}
	}
	return event.Soonest(times...)
}

// eviction is the status of a Workload that is evicted: it keeps its quota until the
// job side gives it back, and its checks begin anew. prepare may change more.
func (k *Kueue) eviction(o *apiserver.Object, reason, message string, prepare func(*status)) *status {
	s := k.status(o)
	if prepare != nil {
		prepare(s)
	}
	s.set(evicted, "True", reason, message, o.Generation)
	s.resetChecks()
	return s
}

func (s *status) requeueAt(at time.Time) {
	old, _ := s.body["requeueState"].(map[string]any)
	state := map[string]any{}
	if count, ok := old["count"]; ok {
		state["count"] = count
	}
	if !at.IsZero() {
		state["requeueAt"] = stamp(at)
	}
	if len(state) == 0 {
		delete(s.body, "requeueState")
		return
	}
	s.body["requeueState"] = state
}

// below returns the map under a key, and makes it where there is none.
func below(body map[string]any, key string) map[string]any {
	m, _ := body[key].(map[string]any)
	if m == nil {
		m = map[string]any{}
		body[key] = m
	}
	return m
}

func stopped(queue *apiserver.Object) bool {
	policy := queue.Text("spec", "stopPolicy")
	return policy != "" && policy != "None"
}

// nodeEvents has a node of an admitted Workload fail, with no other to take its place.
func (k *Kueue) nodeEvents(add func(event.Event)) {
	if !k.config.NodeFailures {
		return
	}
	for i := range k.workloads {
		o := k.workloads[i].seen
		if o.True(admitted) && !o.True(evicted) && !finished(o) && active(o) {
			add(event.Event{Name: "kueue: lose a node of " + o.Key(), Fault: true, Do: func() { _ = k.Evict(o.Namespace, o.Name, NodeFailures) }})
		}
	}
}
