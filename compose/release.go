package compose

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// reasonPending is the reason with which Kueue itself gives quota back.
const reasonPending = "Pending"

// release is how quota is given back: the reason that QuotaReserved=False gets,
// and Requeued, where it is set.
type release struct {
	reason   string
	message  string
	requeued string
	why      string
}

func onHold(message string) func(*situation) *release {
	return func(*situation) *release { return &release{reason: kueue.WorkloadOnHold, message: message} }
}

// releaseRules decide whether and how the quota is given back. Kueue flips
// Requeued=False back by its exact reason, so an eviction's own reason is kept.
var releaseRules = []rule[*release]{
	{name: "NoQuota", when: func(s *situation) bool { return !s.workload.reserved() }, then: nothing[*release]},
	{name: "AttemptNotEnded", when: func(s *situation) bool { return !s.ended() || s.mightStart() || s.runsThough() }, then: nothing[*release]},
	{name: "Deleted", when: func(s *situation) bool { return s.deleting }, then: onHold("the ResumableTrainingJob is being deleted")},
	{name: "Terminal", when: (*situation).terminal, then: nothing[*release]},
	{name: "EndsHere", when: (*situation).endsHere, then: nothing[*release]},
	{name: "VerdictPending", when: (*situation).verdictExpected, then: nothing[*release]},
	{name: "VerdictWaits", when: func(s *situation) bool { return !s.judged() && !s.spec.Suspend && !s.admissionGoes() }, then: onHold("how the last attempt ended is not known until the checkpoint store can be read")},
	{name: "Paused", when: func(s *situation) bool { return s.spec.Suspend }, then: onHold("the ResumableTrainingJob is suspended")},
	{name: "Deactivated", when: func(s *situation) bool {
		return s.workload.evicted() && isDeactivation(s.evictionReason()) || !s.workload.active()
	}, then: (*situation).releaseDeactivated},
	{name: "EvictedAndRequeued", when: func(s *situation) bool { return s.workload.evicted() && requeuedAtOnce(s.evictionReason()) }, then: releaseEvicted("True"),
		why: (*situation).evictionReason},
	{name: "Evicted", when: func(s *situation) bool { return s.workload.evicted() }, then: releaseEvicted("False"),
		why: (*situation).evictionReason},
	{name: "WorkloadGoes", when: func(s *situation) bool { return s.workload.Meta.DeletionTimestamp != nil }, then: onHold("the Workload is being deleted")},
	{name: "Unusable", when: func(s *situation) bool { return s.launch.release }, then: func(s *situation) *release {
		return &release{reason: kueue.WorkloadOnHold, message: clip(s.launch.reason+": "+s.launch.message, 1024)}
	}, why: func(s *situation) string { return s.launch.reason }},
	{name: "InUse", when: always, then: nothing[*release]},
}

// mightStart: a JobSet that was claimed and never ran is still there; whoever
// acts on an older view could start it.
func (s *situation) mightStart() bool {
	return s.attempt != nil && s.attempt.jobset != nil && !s.attempt.ran() && s.claimed()
}

func (s *situation) evictionReason() string {
	return s.workload.condition(kueue.WorkloadEvicted).Reason
}

func requeuedAtOnce(reason string) bool {
	return reason == kueue.WorkloadEvictedByPreemption || reason == kueue.WorkloadEvictedDueToNodeFailures
}

// verdictExpected: how the attempt ended decides what follows, and the store
// can still say it. One that cannot be read never keeps quota from Kueue.
func (s *situation) verdictExpected() bool {
	if s.judged() {
		return false
	}
	unreadable := s.Catalog != nil && s.Catalog.Failure != nil && !s.Catalog.ListedAt.Before(s.readAfterEnd())
	return !unreadable || !(s.admissionGoes() || s.spec.Suspend || s.holdStands())
}

func (s *situation) releaseDeactivated() *release {
	message := s.workload.condition(kueue.WorkloadEvicted).Message
	if message == "" {
		message = "the Workload is not active"
	}
	return &release{reason: reasonPending, message: message, requeued: "False", why: kueue.WorkloadDeactivated}
}

func releaseEvicted(requeued string) func(*situation) *release {
	return func(s *situation) *release {
		return &release{reason: reasonPending, message: s.workload.condition(kueue.WorkloadEvicted).Message, requeued: requeued, why: s.evictionReason()}
	}
}

// releasePatch gives the quota back, once the LIST shows no pod. It also gives back
// what a Workload of an earlier number still holds.
func (s *situation) releasePatch() *Patch {
	for _, w := range s.leftover {
		if w.reserved() && s.ended() && !s.runsThough() {
			s.decision.Rules = append(s.decision.Rules, Match{Table: "release", Rule: "LeftoverWorkload", Why: w.Meta.Name})
			return s.release(w, &release{reason: kueue.WorkloadOnHold, message: "another Workload took its place"})
		}
	}
	r := first(s, "release", releaseRules)
	if r == nil {
		return nil
	}
	return s.release(s.workload, r)
}

func (s *situation) release(w *Workload, r *release) *Patch {
	conditions := newConditions(s, w)
	conditions.set(kueue.WorkloadQuotaReserved, "False", r.reason, r.message)
	conditions.set(kueue.WorkloadAdmitted, "False", kueue.WorkloadAdmittedReasonNoReservation, "The workload has no reservation")
	conditions.set(kueue.WorkloadPodsReady, "False", kueue.WorkloadWaitForStart, "no attempt runs")
	if r.requeued != "" {
		conditions.set(kueue.WorkloadRequeued, r.requeued, r.why, r.message)
	}
	status := map[string]any{"conditions": conditions.list, "admission": nil}
	if c := w.condition(kueue.WorkloadAdmitted); c.Status == "True" {
		seconds := int32(max(s.Now.Sub(c.LastTransitionTime.Time).Seconds(), 0))
		if w.Status.AccumulatedPastExecutionTimeSeconds != nil {
			seconds += *w.Status.AccumulatedPastExecutionTimeSeconds
		}
		status["accumulatedPastExecutionTimeSeconds"] = seconds
	}
	patch := s.statusPatch("release", w, status)
	patch.NoLivePods = s.noLivePods()
	s.forceLingering(s.judged() || s.deleting)
	return patch
}

func (s *situation) statusPatch(name string, w *Workload, status map[string]any) *Patch {
	return &Patch{Name: name, Target: workloadTarget(w, "status"), Body: json.RawMessage(encode(map[string]any{
		"metadata": map[string]any{"resourceVersion": w.Meta.ResourceVersion, "uid": w.Meta.UID},
		"status":   status,
	}))}
}

// workloadConditions is the list to be written: as observed, with ours changed.
type workloadConditions struct {
	list       []json.RawMessage
	observed   []Condition
	at         metav1.Time
	generation int64
}

func newConditions(s *situation, w *Workload) *workloadConditions {
	c := &workloadConditions{observed: w.Status.Conditions, at: wholeSeconds(s.Now), generation: w.Meta.Generation}
	for i := range w.Status.Conditions {
		c.list = append(c.list, w.Status.Conditions[i].Raw)
	}
	return c
}

func (c *workloadConditions) set(kind, status, reason, message string) {
	at := c.at
	old := condition(c.observed, kind)
	if old.Status == status {
		at = old.LastTransitionTime
	}
	text := json.RawMessage(encode(metav1.Condition{
		Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: clip(message, 1024),
		LastTransitionTime: at, ObservedGeneration: c.generation,
	}))
	for i := range c.observed {
		if c.observed[i].Type == kind {
			c.list[i] = text
			return
		}
	}
	c.list = append(c.list, text)
}

// queue decides whether a Workload that holds no quota is put on hold or back
// into the queue.
var queueRules = []rule[*release]{
	{name: "NoWorkload", when: func(s *situation) bool { return s.workload == nil || s.workload.reserved() }, then: nothing[*release]},
	{name: "Over", when: func(s *situation) bool {
		return s.terminal() || s.deleting || s.spec.Suspend || s.workload.finished() || !s.workload.active() || s.workload.Meta.DeletionTimestamp != nil
	}, then: nothing[*release]},
	{name: "AttemptNotEnded", when: func(s *situation) bool { return !s.ended() || s.endsHere() }, then: nothing[*release]},
	{name: "QueueStopped", when: func(s *situation) bool { return !s.queuesActive() }, then: nothing[*release]},
	{name: "OnHold", when: func(s *situation) bool { return s.holdStands() && !s.onHold() }, then: func(s *situation) *release {
		return &release{reason: kueue.WorkloadOnHold, message: clip(s.next.Hold.Reason+": "+s.next.Hold.Message, 1024)}
	}, why: func(s *situation) string { return s.next.Hold.Reason }},
	{name: "StaysOnHold", when: (*situation).holding, then: nothing[*release]},
	{name: "VerdictPending", when: func(s *situation) bool { return !s.judged() }, then: nothing[*release]},
	{name: "ShapeNotWritten", when: func(s *situation) bool { return !s.shapeCurrent() }, then: nothing[*release]},
	{name: "KueueBacksOff", when: func(s *situation) bool { return s.onHold() && s.kueueBacksOff() }, then: nothing[*release]},
	{name: "BackToTheQueue", when: (*situation).onHold, then: func(s *situation) *release {
		return &release{reason: reasonPending, message: "the ResumableTrainingJob may run again"}
	}},
	{name: "Waits", when: always, then: nothing[*release]},
}

// onHold reports whether Kueue keeps the Workload out of the queue for us.
func (s *situation) onHold() bool {
	return s.workload.condition(kueue.WorkloadQuotaReserved).Reason == kueue.WorkloadOnHold
}

// kueueBacksOff: Kueue keeps the Workload out of the queue for a while, for an
// eviction before. One that comes back earlier it puts aside, and does not look at
// again when that while is over.
func (s *situation) kueueBacksOff() bool {
	state := s.workload.Status.RequeueState
	return state != nil && state.RequeueAt != nil && !s.reached(state.RequeueAt.Time)
}

func (s *situation) queuePatch() *Patch {
	r := first(s, "queue", queueRules)
	if r == nil {
		return nil
	}
	conditions := newConditions(s, s.workload)
	conditions.set(kueue.WorkloadQuotaReserved, "False", r.reason, r.message)
	name := "requeue"
	if r.reason == kueue.WorkloadOnHold {
		name = "hold"
	}
	return s.statusPatch(name, s.workload, map[string]any{"conditions": conditions.list})
}
