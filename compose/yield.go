package compose

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose/checkpoint"
)

// yield is the request that an attempt ends. There is one for each attempt and
// it is irrevocable: once asked, the attempt ends, even if the cause goes away.
type yield struct {
	id       int32
	cause    v1beta1.YieldCause
	issuedAt time.Time
	deadline time.Time
	history  []laterCause
	// observed reports that the control document carries it.
	observed bool
}

// gatherYield reads the request back: from the control document, else from status.
func (s *situation) gatherYield() {
	if s.attempt == nil {
		return
	}
	if d := s.document; d != nil && d.Yield != nil && d.Attempt == s.attempt.number {
		s.yield = &yield{id: d.Yield.ID, cause: d.Yield.Cause, issuedAt: d.Yield.IssuedAt, deadline: d.Yield.Deadline, history: d.Yield.History, observed: true}
		return
	}
	if y := s.was.Yield; y != nil && y.Attempt == s.attempt.number {
		s.yield = &yield{id: y.Attempt, cause: y.Cause, issuedAt: y.IssuedAt.Time, deadline: y.Deadline.Time}
	}
}

func (y *yield) document() *controlYield {
	return &controlYield{ID: y.id, Cause: y.cause, IssuedAt: y.issuedAt.UTC(), Deadline: y.deadline.UTC(), History: y.history}
}

// maxCause is the longest cause that status has room for, in bytes.
const maxCause = 64

// The table of causes: why the current attempt must end, the first match being
// the cause that is recorded.
var causes = []rule[v1beta1.YieldCause]{
	{name: "NoAttemptRuns", when: func(s *situation) bool { return !s.live() }, then: nothing[v1beta1.YieldCause]},
	{name: "EndsByItself", when: func(s *situation) bool { return s.yield == nil && s.attempt.finished() }, then: nothing[v1beta1.YieldCause]},
	{name: "Deleted", when: func(s *situation) bool { return s.deleting }, then: cause(v1beta1.CauseDeleted)},
	{name: "Paused", when: func(s *situation) bool { return s.spec.Suspend }, then: cause(v1beta1.CausePaused)},
	{name: "JobIsOver", when: (*situation).terminal, then: cause(v1beta1.CauseAdmissionLost)},
	{name: "WorkloadGone", when: func(s *situation) bool { return s.workload == nil || s.workload.Meta.DeletionTimestamp != nil }, then: cause(v1beta1.CauseAdmissionLost)},
	{name: "Evicted", when: func(s *situation) bool { return s.workload.evicted() }, then: (*situation).evictionCause,
		why: func(s *situation) string { return s.workload.condition(kueue.WorkloadEvicted).Message }},
	{name: "Deactivated", when: func(s *situation) bool { return !s.workload.active() }, then: cause(v1beta1.CauseDeactivated)},
	{name: "ClaimNotOfThisReservation", when: func(s *situation) bool { return !s.claimed() }, then: cause(v1beta1.CauseAdmissionLost)},
	{name: "RolledBack", when: (*situation).rolledBack, then: cause(v1beta1.CauseRollback),
		why: func(s *situation) string { return s.spec.Resume.From }},
	{name: "NeverReady", when: (*situation).startupOverdue, then: cause(v1beta1.CauseStartupDeadline)},
	{name: "PodsEndedUnasked", when: (*situation).podsEndedTooLong, then: cause(v1beta1.CauseDisruption)},
	{name: "WorkersFinishedAndPodsHang", when: func(s *situation) bool { return s.overTooLong(true) }, then: cause(v1beta1.CauseFinished)},
	{name: "WorkersLeftAndPodsHang", when: func(s *situation) bool { return s.overTooLong(false) }, then: cause(v1beta1.CauseDisruption)},
	{name: "SuspendedWithoutJobs", when: (*situation).suspendedEmpty, then: cause(v1beta1.CauseDisruption)},
	{name: "Undisturbed", when: always, then: nothing[v1beta1.YieldCause]},
}

func cause(c v1beta1.YieldCause) func(*situation) v1beta1.YieldCause {
	return func(*situation) v1beta1.YieldCause { return c }
}

// evictionCause is Kueue's own reason, without what follows Deactivated.
func (s *situation) evictionCause() v1beta1.YieldCause {
	switch reason := s.evictionReason(); {
	case isDeactivation(reason):
		return v1beta1.CauseDeactivated
	case !isReason(reason):
		return v1beta1.CauseAdmissionLost
	default:
		return v1beta1.YieldCause(reason)
	}
}

// rolledBack: spec.resume.from names a checkpoint that can be resumed, and the
// attempt does not descend from it. One that cannot be found stops nothing.
func (s *situation) rolledBack() bool {
	from := s.spec.Resume.From
	if from == "" || !s.Catalog.Readable() || checkpoint.Descends(s.Catalog, s.restorePoint(s.attempt), from) {
		return false
	}
	return s.choose().Selected != nil
}

// startupOverdue: not all pods were ready within the startup deadline, which
// counts from the claim. Workers that made a step are not stopped for a pod that
// they do not need.
func (s *situation) startupOverdue() bool {
	if s.attempt.ran() {
		if entry := s.ledgerEntry(s.attempt.number); entry != nil && entry.ReadyAt != nil || s.attempt.allReady() {
			return false
		}
		if p := s.records().Progress; p != nil && p.FirstStepAt != nil {
			return false
		}
	}
	return s.reached(s.claim.At.Add(s.startupDeadline()))
}

// everReady reports whether a pod of the current attempt was ever ready.
func (s *situation) everReady() bool {
	if s.attempt.readyPods() > 0 || s.Catalog.HasRecords(s.attempt.number) {
		return true
	}
	entry := s.ledgerEntry(s.attempt.number)
	return entry != nil && entry.ReadyAt != nil
}

// lingering is for how long pods are waited for beyond their grace period: the kubelet
// reports late, and what it does takes time.
const lingering = 30 * time.Second

// podsEndedTooLong: pods terminate that nobody asked to end, for longer than
// their grace period and thirty seconds.
func (s *situation) podsEndedTooLong() bool {
	p := s.next.PodsEnding
	if p == nil || p.Attempt != s.attempt.number || !s.attempt.endedUnasked() {
		return false
	}
	return s.reached(p.Since.Add(s.terminationGrace() + lingering))
}

// overTooLong: by their own record the workers have ended, finished or not, and pods of
// theirs are left for longer than their grace period and thirty seconds. They hang, and
// nothing that they might still do counts.
func (s *situation) overTooLong(finished bool) bool {
	r := s.records().Result
	if r == nil || r.EndedAt.IsZero() || finished != (r.Outcome == checkpoint.ResultFinished) {
		return false
	}
	return s.reached(r.EndedAt.Add(s.terminationGrace() + lingering))
}

// suspendedEmpty: somebody suspended the JobSet, and it has made no Job nor says that it
// is suspended, such as for a quota of objects. Nothing else would end the attempt before
// its startup deadline.
func (s *situation) suspendedEmpty() bool {
	a := s.attempt
	return a.jobset.suspended() && len(a.jobs) == 0 && a.countedJobs() == 0 && !a.jobset.is(jobset.JobSetSuspended)
}

// askToYield settles the request for the current attempt: the first cause and
// the deadline stay, later causes are appended, and the deadline only moves earlier.
func (s *situation) askToYield() {
	now := first(s, "yield", causes)
	if now == "" && (s.yield == nil || !s.live()) {
		return
	}
	if s.yield == nil {
		issued := s.Now.UTC().Truncate(time.Second)
		s.yield = &yield{id: s.attempt.number, cause: now, issuedAt: issued, deadline: issued.Add(s.gracePeriod())}
	}
	s.yield.addCause(now, s.Now)
	if earlier := s.yield.issuedAt.Add(s.gracePeriod()); earlier.Before(s.yield.deadline) {
		s.yield.deadline = earlier
	}
	record := &v1beta1.YieldStatus{
		Attempt: s.attempt.number, Cause: s.yield.cause,
		IssuedAt: metav1.NewTime(s.yield.issuedAt), Deadline: metav1.NewTime(s.yield.deadline),
	}
	if old := s.was.Yield; old != nil && old.Attempt == record.Attempt {
		record.SuspendedAt = old.SuspendedAt
	}
	if s.live() {
		// Seen, not decided: the update that suspends may be late, and somebody may take
		// it back.
		switch suspended := s.attempt.jobset.suspended(); {
		case !suspended:
			record.SuspendedAt = nil
		case record.SuspendedAt == nil:
			at := metav1.NewTime(s.Now.UTC())
			record.SuspendedAt = &at
		}
	}
	s.next.Yield = record
}

func (y *yield) addCause(c v1beta1.YieldCause, at time.Time) {
	last := y.cause
	if n := len(y.history); n > 0 {
		last = y.history[n-1].Cause
	}
	if c == "" || c == y.cause || c == last || len(y.history) >= maxHistory {
		return
	}
	history := append([]laterCause(nil), y.history...)
	y.history = append(history, laterCause{Cause: c, At: at.UTC().Truncate(time.Second)})
}

// stopDue reports whether the workers are to be stopped now: the deadline is
// over, or there is nobody to ask.
func (s *situation) stopDue() bool {
	if s.yield == nil {
		return false
	}
	if !s.everReady() || s.yield.cause == v1beta1.CauseFinished || s.overTooLong(false) {
		return true
	}
	return s.reached(s.yield.deadline)
}

// forPeople says why the attempt ends.
func (y *yield) forPeople() string {
	return fmt.Sprintf("%s since %s, until %s", y.cause, y.issuedAt.UTC().Format(time.RFC3339), y.deadline.UTC().Format(time.RFC3339))
}
