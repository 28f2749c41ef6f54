package compose

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"rtj.dev/rtj/api/v1beta1"
)

// ends: whether the current attempt has ended.
var ends = []rule[bool]{
	{name: "WithdrawnBeforeItStarted", when: func(s *situation) bool { return s.unstarted() && !s.mayStart() }, then: yes},
	{name: "NeverStarted", when: (*situation).unstarted, then: no},
	{name: "LeaderLeftBehind", when: func(s *situation) bool { return s.attempt.jobset == nil && s.attempt.drained() && s.leaderMayCommit() }, then: no},
	{name: "JobSetGone", when: func(s *situation) bool { return s.attempt.jobset == nil && s.attempt.drained() }, then: yes},
	{name: "JobsMayStartYet", when: (*situation).jobsMayStart, then: no},
	{name: "Drained", when: func(s *situation) bool { return s.attempt.drained() }, then: yes},
	{name: "NoJobWasMade", when: (*situation).noJobMade, then: yes},
	{name: "Forced", when: (*situation).forceDue, then: (*situation).force,
		why: func(s *situation) string { return "stopped since " + s.stoppedSince().UTC().Format(time.RFC3339) }},
	{name: "JobsLeftBehind", when: func(s *situation) bool { return s.attempt.jobset == nil }, then: no},
	{name: "StillRuns", when: always, then: no},
}

// endAttempt notes the end of the current attempt once nothing of it is left by
// what the Jobs show, or once it is given up.
func (s *situation) endAttempt() {
	if s.attempt == nil || s.ended() {
		return
	}
	if !first(s, "end", ends) {
		return
	}
	at := metav1.NewTime(s.Now.UTC())
	s.next.LastEnd = &v1beta1.AttemptEnd{Attempt: s.attempt.number, At: at, ObservedBy: clip(s.Observer, maxObserver)}
	if entry := s.ledgerEntry(s.attempt.number); entry != nil {
		entry.StoppedAt = timePtr(at.Time)
	}
}

// jobsAppear is how long the Jobs of a JobSet are waited for that has none. A reconcile
// of the JobSet controller that began before and is under way for longer is not reckoned
// with.
const jobsAppear = 15 * time.Second

// noJobMade: the attempt was stopped, and its JobSet has made no Job, such as for
// a quota of objects. What it makes from now on is suspended.
func (s *situation) noJobMade() bool {
	a := s.attempt
	if a.jobset == nil || !a.jobset.suspended() || a.countedJobs() > 0 || len(a.jobs) > 0 || s.stoppedSince().IsZero() {
		return false
	}
	return s.reached(s.stoppedSince().Add(jobsAppear))
}

// jobsMayStart: the attempt was stopped so soon after its start that Jobs are suspended
// from before it, or while a Job was missing that somebody deleted. The JobSet controller
// may just be about to start or to make them, and stops them again only then.
func (s *situation) jobsMayStart() bool {
	a, y := s.attempt, s.next.Yield
	if a.jobset == nil || !a.jobset.suspended() || a.finished() || y == nil || y.Attempt != a.number || y.SuspendedAt == nil || !a.drained() {
		return false
	}
	started := s.startedAt(a)
	if len(a.jobs) >= a.wantedJobs() && !slices.ContainsFunc(a.jobs, func(j *Job) bool { return j.suspendedBefore(started) }) {
		return false
	}
	return !s.reached(y.SuspendedAt.Add(jobsAppear))
}

// leaderLingers is how long after its grace period a leader pod is waited for.
const leaderLingers = 10 * time.Second

// leaderMayCommit reports whether the leader pod, which commits the checkpoints,
// is left after its Jobs are gone: its last checkpoint is still to come. One that
// should have ended is not waited for: its node is gone.
func (s *situation) leaderMayCommit() bool {
	for i := range s.LeaderPods {
		p := &s.LeaderPods[i]
		if p.Meta.Labels[v1beta1.LabelAttempt] != number(s.attempt.number) ||
			p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		if p.Meta.DeletionTimestamp == nil {
			return true
		}
		if !s.reached(p.Meta.DeletionTimestamp.Add(leaderLingers)) {
			return true
		}
	}
	return false
}

// maxObserver is the longest name of a process that status has room for, in bytes.
const maxObserver = 128

func yes(*situation) bool { return true }
func no(*situation) bool  { return false }

// An attempt is given up (forced) in two ways: it was stopped, and its Jobs do not drain
// (forceDue); or it drained by what the Jobs show, and the LIST finds pods ever since
// (forceLingering).

// forceDue: the workers were stopped, and their pods do not go away. A node that
// is gone keeps pods terminating for ever.
func (s *situation) forceDue() bool {
	since := s.stoppedSince()
	return !since.IsZero() && s.overdue(since)
}

// stoppedSince is since when the pods are being stopped: by us, or because the
// attempt ends without us. It is zero while they are not.
func (s *situation) stoppedSince() time.Time {
	if y := s.next.Yield; y != nil && y.Attempt == s.attempt.number && y.SuspendedAt != nil {
		return y.SuspendedAt.Time
	}
	return s.attempt.endingSince()
}

func (s *situation) overdue(since time.Time) bool {
	return s.reached(since.Add(s.forceAfter()))
}

// force gives the attempt up. Status says so first; its JobSet and its Workload
// go when that stands in the observed status, and the next Workload has a new
// name, so that pods which linger do not count for it.
func (s *situation) force() bool {
	s.forceNumber(s.attempt.number)
	return true
}

func (s *situation) forceNumber(n int32) {
	forced := append(s.next.Forced, v1beta1.ForcedAttempt{Attempt: n, At: metav1.NewTime(s.Now.UTC())})
	if extra := len(forced) - v1beta1.MaxForced; extra > 0 {
		forced = forced[extra:]
	}
	s.next.Forced = forced
	if !s.terminal() {
		s.next.WorkloadNumber++
	}
}

// forceLingering gives up an attempt that ended by what the Jobs showed, while
// the LIST has found pods of it ever since: a write that relies on the LIST
// waits for as long as an undrained attempt would have.
func (s *situation) forceLingering(waits bool) {
	if !waits || s.attempt == nil || s.was.LastEnd == nil || s.was.LastEnd.Attempt != s.attempt.number {
		return
	}
	if !s.forced(s.attempt.number) && s.overdue(s.listWantedSince()) {
		s.forceNumber(s.attempt.number)
	}
}

// listWantedSince is the latest event that can have made a write wanted which
// relies on the LIST. A job that was paused or in the queue for an hour has not
// waited for its pods that long.
func (s *situation) listWantedSince() time.Time {
	since := s.was.LastEnd.At.Time
	later := func(t time.Time) {
		if t.After(since) {
			since = t
		}
	}
	later(s.reservation.ReservedAt.Time)
	if s.workload != nil {
		for _, kind := range []string{kueue.WorkloadAdmitted, kueue.WorkloadEvicted} {
			later(s.workload.condition(kind).LastTransitionTime.Time)
		}
	}
	if s.prepared != nil {
		later(s.prepared.Meta.CreationTimestamp.Time)
	}
	if s.was.Hold != nil {
		later(s.was.Hold.Since.Time)
	}
	return since
}
