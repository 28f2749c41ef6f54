package compose

import (
	"fmt"
	"slices"
	"time"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"rtj.dev/rtj/api/v1beta1"
)

// standing is a phase with its reason.
type standing struct {
	phase   v1beta1.Phase
	reason  string
	message string
	// stalled: a person has to act.
	stalled bool
}

func at(phase v1beta1.Phase, reason, message string) func(*situation) standing {
	return func(*situation) standing { return standing{phase: phase, reason: reason, message: message} }
}

// phases derives the phase.
var phases = []rule[standing]{
	{name: "Terminal", when: (*situation).terminal, then: (*situation).sameStanding},
	{name: "Succeeded", when: func(s *situation) bool {
		return !s.deleting && s.attempt != nil && s.judged() && s.next.LastEnd.Outcome == v1beta1.OutcomeFinished
	}, then: (*situation).succeeded},
	{name: "FailureBudgetSpent", when: func(s *situation) bool { return !s.deleting && s.budgetSpent() }, then: (*situation).budgetMessage},
	{name: "RestoreFailing", when: func(s *situation) bool { return !s.deleting && s.restoreFailing() }, then: (*situation).restoreMessage},
	{name: "AttemptsExhausted", when: func(s *situation) bool { return s.launch.reason == v1beta1.ReasonAttemptsExhausted }, then: (*situation).exhaustedStanding},
	{name: "Yielding", when: func(s *situation) bool { return s.live() && s.yield != nil }, then: (*situation).yielding},
	{name: "RunsThoughEnded", when: (*situation).runsThough, then: at(v1beta1.PhaseDraining, string(v1beta1.CauseAdmissionLost), "an attempt runs that had ended; it is stopped")},
	{name: "Deleted", when: func(s *situation) bool { return s.deleting }, then: at(v1beta1.PhaseDraining, string(v1beta1.CauseDeleted), "the quota is given back")},
	{name: "GoesBack", when: (*situation).releasing, then: (*situation).releasingStanding},
	{name: "GivenUp", when: (*situation).leftoverHoldsQuota, then: (*situation).givenUpStanding},
	{name: "Ends", when: (*situation).endsByItself, then: (*situation).ending},
	{name: "Paused", when: func(s *situation) bool { return s.spec.Suspend && !s.live() }, then: at(v1beta1.PhasePaused, v1beta1.ReasonPaused, "suspended; nothing runs and no quota is held; set spec.suspend to false to go on")},
	{name: "Trains", when: func(s *situation) bool { return s.live() && s.trains() }, then: (*situation).training},
	{name: "Restores", when: func(s *situation) bool { return s.live() && s.attempt.allReady() }, then: (*situation).restoring},
	{name: "PodsNotReady", when: (*situation).live, then: (*situation).podsNotReady},
	{name: "StoreUnreadable", when: func(s *situation) bool {
		return s.claimedButIdle() && s.confirmation() == unconfirmed && s.Catalog != nil && s.Catalog.Failure != nil
	}, then: (*situation).storeUnreadable},
	{name: "Claimed", when: (*situation).claimedButIdle, then: (*situation).podsNotReady},
	{name: "Deactivated", when: func(s *situation) bool { return s.workload != nil && !s.workload.active() }, then: (*situation).deactivated},
	{name: "AdmissionChecks", when: func(s *situation) bool { return s.workload.reserved() && !s.workload.admitted() }, then: at(v1beta1.PhaseQueued, v1beta1.ReasonAwaitingAdmissionChecks, "quota is reserved; admission checks are not ready yet")},
	{name: "GoesUnused", when: (*situation).goesUnused, then: (*situation).unusedStanding},
	{name: "Launches", when: func(s *situation) bool { return s.workload.reserved() }, then: (*situation).launching},
	{name: "OnHold", when: func(s *situation) bool { return s.workload != nil && s.holding() }, then: held(v1beta1.PhaseQueued)},
	{name: "Waits", when: func(s *situation) bool { return s.workload != nil }, then: (*situation).queued},
	{name: "VerdictPending", when: func(s *situation) bool { return s.attempt != nil && !s.judged() }, then: at(v1beta1.PhaseDraining, v1beta1.ReasonVerdictPending, "the attempt ended; the store is read for how")},
	{name: "Missing", when: func(s *situation) bool {
		return s.missing().reason != "" && s.missing().reason != v1beta1.ReasonCatalogNotRead
	}, then: (*situation).pending},
	{name: "HeldOutsideTheQueue", when: (*situation).holding, then: held(v1beta1.PhasePending)},
	{name: "StoreNotRead", when: func(s *situation) bool { return s.missing().reason != "" }, then: (*situation).pending},
	{name: "Queues", when: always, then: at(v1beta1.PhasePending, v1beta1.ReasonCreatingWorkload, "the Workload is created next")},
}

func (s *situation) claimedButIdle() bool { return s.unstarted() && s.mayStart() }

// sameStanding keeps what a terminal job said of itself.
func (s *situation) sameStanding() standing {
	for _, c := range s.was.Conditions {
		if c.Type == v1beta1.ConditionReady {
			return standing{phase: s.was.Phase, reason: c.Reason, message: c.Message, stalled: s.was.Phase == v1beta1.PhaseFailed}
		}
	}
	return standing{phase: s.was.Phase, reason: string(s.was.Phase), stalled: s.was.Phase == v1beta1.PhaseFailed}
}

func (s *situation) succeeded() standing {
	message := fmt.Sprintf("finished in attempt %d", s.attempt.number)
	if r := s.records().Result; r != nil {
		message += fmt.Sprintf(" at step %d", r.Step)
	}
	return standing{phase: v1beta1.PhaseSucceeded, reason: v1beta1.ReasonFinished, message: message}
}

func (s *situation) budgetMessage() standing {
	return standing{phase: v1beta1.PhaseFailed, reason: v1beta1.ReasonFailureBudgetSpent, stalled: true, message: clip(fmt.Sprintf(
		"%d failures in a row without a new checkpoint, spec.failurePolicy.maxFailures is %d; the last one, of attempt %d: %s",
		s.next.Failures.WithoutProgress, s.maxFailures(), s.attempt.number, s.outcomeMessage(s.next.LastEnd.Outcome)), 1024)}
}

func (s *situation) restoreMessage() standing {
	what := fmt.Sprintf("checkpoint %s cannot be restored, and there is none before it", s.restorePoint(s.attempt))
	if other := s.otherGivenUp(); other != "" {
		what = fmt.Sprintf("checkpoint %s cannot be restored, nor %s, the one before", other, s.restorePoint(s.attempt))
	}
	return standing{phase: v1beta1.PhaseFailed, reason: v1beta1.ReasonRestoreFailing, stalled: true, message: clip(fmt.Sprintf(
		"%s; nothing was deleted or quarantined; the last failure, of attempt %d: %s",
		what, s.attempt.number, s.outcomeMessage(v1beta1.OutcomeRestoreFailed)), 1024)}
}

func (s *situation) yielding() standing {
	message := fmt.Sprintf("attempt %d was asked to end: %s", s.attempt.number, s.yield.forPeople())
	if s.next.Yield.SuspendedAt != nil {
		message += "; its workers were stopped"
	}
	return standing{phase: v1beta1.PhaseDraining, reason: string(s.yield.cause), message: message}
}

func (s *situation) exhaustedStanding() standing {
	return standing{phase: v1beta1.PhaseFailed, reason: v1beta1.ReasonAttemptsExhausted, stalled: true,
		message: fmt.Sprintf("attempt %d was the last that names have room for; create another job", maxAttempt)}
}

// endsByItself: the attempt's JobSet finished, was suspended or deleted, and
// nobody asked for it; pods of it are left.
func (s *situation) endsByItself() bool {
	if s.ended() {
		return false
	}
	j := s.attempt.jobset
	return j == nil || s.attempt.finished() || j.ran() && (j.suspended() || j.Meta.DeletionTimestamp != nil)
}

func (s *situation) ending() standing {
	return standing{phase: v1beta1.PhaseDraining, reason: v1beta1.ReasonVerdictPending, message: fmt.Sprintf("attempt %d ended; pods of it are left", s.attempt.number)}
}

// runsThough reports whether an attempt runs that must not: an older one, or one
// that had ended and that somebody started again.
func (s *situation) runsThough() bool {
	return s.startedAgain() || slices.ContainsFunc(s.older, func(a *attempt) bool { return a.running() && !s.forced(a.number) })
}

func (s *situation) startedAgain() bool {
	return s.attempt.running() && s.ended() && !s.forced(s.attempt.number)
}

// releasing: nothing runs by what the Jobs show, and the quota still has to go.
func (s *situation) releasing() bool {
	if !s.workload.reserved() || s.live() {
		return false
	}
	if s.spec.Suspend {
		return true
	}
	return s.attempt != nil && s.claimed() && (s.workload.evicted() || !s.workload.active())
}

// leftoverHoldsQuota: an attempt was given up, and its Workload's quota goes.
func (s *situation) leftoverHoldsQuota() bool {
	for _, w := range s.leftover {
		if w.reserved() {
			return true
		}
	}
	return false
}

func (s *situation) givenUpStanding() standing {
	reason := v1beta1.CauseDisruption
	if y := s.was.Yield; y != nil && s.attempt != nil && y.Attempt == s.attempt.number {
		reason = y.Cause
	}
	return standing{phase: v1beta1.PhaseDraining, reason: string(reason), message: "the attempt was given up; its quota is given back, and another Workload takes its place"}
}

// goesUnused: an admission goes back that no attempt used, or that the next one
// cannot use.
func (s *situation) goesUnused() bool {
	return s.workload.reserved() && (s.workload.evicted() || s.launch.release)
}

func (s *situation) unusedStanding() standing {
	if s.launch.release {
		return standing{phase: v1beta1.PhaseQueued, reason: s.launch.reason, message: s.launch.message, stalled: needsPerson[s.launch.reason]}
	}
	return s.requeuedStanding()
}

func (s *situation) requeuedStanding() standing {
	return standing{phase: v1beta1.PhaseQueued, reason: v1beta1.ReasonRequeued, message: fmt.Sprintf("evicted by Kueue (%s), waits for quota again", s.evictionReason())}
}

func (s *situation) releasingStanding() standing {
	reason := v1beta1.ReasonDeactivated
	switch {
	case s.spec.Suspend:
		reason = v1beta1.ReasonPaused
	case s.workload.evicted():
		reason = string(s.evictionCause())
	}
	return standing{phase: v1beta1.PhaseDraining, reason: reason, message: "nothing runs; the quota is given back once no pod is left"}
}

func (s *situation) training() standing {
	if s.records().Progress == nil {
		return standing{phase: v1beta1.PhaseRunning, reason: v1beta1.ReasonPodsReady, message: fmt.Sprintf("attempt %d: all pods are ready", s.attempt.number)}
	}
	return standing{phase: v1beta1.PhaseRunning, reason: v1beta1.ReasonTraining, message: fmt.Sprintf("attempt %d trains", s.attempt.number)}
}

func (s *situation) restoring() standing {
	return standing{phase: v1beta1.PhaseStarting, reason: v1beta1.ReasonRestoring, message: fmt.Sprintf("attempt %d restores %s", s.attempt.number, s.restorePoint(s.attempt))}
}

func (s *situation) podsNotReady() standing {
	message := fmt.Sprintf("attempt %d: not all pods are ready", s.attempt.number)
	if s.lacksJobs() {
		message = fmt.Sprintf("attempt %d: its JobSet has made no Job; `kubectl describe jobset %s` says why", s.attempt.number, s.attempt.jobset.Meta.Name)
	}
	return standing{phase: v1beta1.PhaseStarting, reason: v1beta1.ReasonPodsNotReady, message: message}
}

// storeUnreadable: the claimed attempt starts when the store was read once more.
func (s *situation) storeUnreadable() standing {
	return standing{phase: v1beta1.PhaseStarting, reason: string(s.Catalog.Failure.Kind), message: s.storeMessage()}
}

// lacksJobs: the JobSet was started, and for longer than that takes has made no Job.
func (s *situation) lacksJobs() bool {
	if !s.live() || s.attempt.jobset == nil || len(s.attempt.jobs) > 0 {
		return false
	}
	return s.reached(s.startedAt(s.attempt).Add(jobsAppear))
}

func (s *situation) deactivated() standing {
	message := fmt.Sprintf("Workload %s is not active", s.workload.Meta.Name)
	if why := s.workload.condition(kueue.WorkloadEvicted).Message; why != "" {
		message = fmt.Sprintf("Kueue deactivated Workload %s: %s", s.workload.Meta.Name, why)
	}
	return standing{phase: v1beta1.PhaseQueued, reason: v1beta1.ReasonDeactivated, stalled: true,
		message: clip(message+"; set its spec.active to true, or suspend and resume the job", 1024)}
}

func (s *situation) launching() standing {
	st := standing{phase: v1beta1.PhaseStarting, reason: s.launch.reason, message: s.launch.message}
	if st.reason == "" || st.reason == v1beta1.ReasonChoosingCheckpoint {
		st.reason = v1beta1.ReasonAdmitted
	}
	if st.message == "" {
		st.message = "admitted; the next attempt is prepared"
		if st.reason == v1beta1.ReasonVerdictPending {
			st.message = fmt.Sprintf("attempt %d ended; the store is read for how", s.attempt.number)
		}
	}
	st.stalled = needsPerson[st.reason]
	return st
}

// needsPerson are the reasons that do not go away by waiting.
var needsPerson = map[string]bool{
	v1beta1.ReasonNoCompatibleCheckpoint:        true,
	v1beta1.ReasonLaunchRefused:                 true,
	v1beta1.ReasonQueueNotFound:                 true,
	v1beta1.ReasonClusterQueueNotFound:          true,
	v1beta1.ReasonDefaultLocalQueueCapturesPods: true,
	v1beta1.ReasonQueueLabelOnJob:               true,
	v1beta1.ReasonPriorityClassNotFound:         true,
	v1beta1.ReasonSecretNotFound:                true,
	v1beta1.ReasonSecretIncomplete:              true,
	v1beta1.ReasonBucketNotFound:                true,
	v1beta1.ReasonStoreAccessDenied:             true,
	v1beta1.ReasonTemplateInvalid:               true,
}

func held(phase v1beta1.Phase) func(*situation) standing {
	return func(s *situation) standing {
		h := s.next.Hold
		return standing{phase: phase, reason: h.Reason, message: h.Message + s.nextTry(), stalled: needsPerson[h.Reason]}
	}
}

func (s *situation) queued() standing {
	c := s.workload.condition(kueue.WorkloadQuotaReserved)
	st := standing{phase: v1beta1.PhaseQueued, reason: v1beta1.ReasonWaitingForQuota, message: c.Message}
	if st.message == "" {
		st.message = "the Workload waits for Kueue"
	}
	switch {
	case s.workload.finished():
		st.reason, st.message = v1beta1.ReasonRequeued, "the Workload was finished by someone else; another one is made"
	case c.Reason == kueue.WorkloadInadmissible:
		st.reason = v1beta1.ReasonInadmissible
	case c.Reason == kueue.WorkloadOnHold:
		st.reason = v1beta1.ReasonOnHold
	case !s.queuesActive():
		st.reason = v1beta1.ReasonQueueStopped
	case s.workload.evicted():
		return s.requeuedStanding()
	}
	return st
}

func (s *situation) pending() standing {
	l := s.missing()
	return standing{phase: v1beta1.PhasePending, reason: l.reason, message: l.message + s.nextTry(), stalled: needsPerson[l.reason]}
}

// nextTry says when a job on hold is looked at again, and how not to wait.
func (s *situation) nextTry() string {
	if h := s.next.Hold; h != nil && h.Until != nil && s.holding() {
		return fmt.Sprintf(" (tried again at %s; to try now, suspend and resume the job)", h.Until.UTC().Format(time.RFC3339))
	}
	return ""
}
