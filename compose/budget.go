package compose

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose/checkpoint"
)

const (
	// keepAdmission is the longest back-off during which the quota is kept.
	keepAdmission = 30 * time.Second
	// maxBackoff bounds every back-off.
	maxBackoff = 10 * time.Minute
	// restoreTries is how often one checkpoint may fail to be restored.
	restoreTries = 3
)

// countOutcome draws what follows from the outcome for the failure budget and
// the wait before the next attempt. Progress is a commit of a higher step.
func (s *situation) countOutcome() {
	f := &s.next.Failures
	best := s.newestCommit(s.attempt.number)
	if best != nil {
		// The branch goes on from here: what could not be restored is behind it.
		s.next.RestoreFailures = nil
	}
	progress := best != nil && best.Step > f.BestStep
	if progress {
		*f = v1beta1.FailureStatus{BestStep: best.Step}
	}
	switch s.next.LastEnd.Outcome {
	case v1beta1.OutcomeFailed, v1beta1.OutcomeCompletedWithoutResult:
		f.WithoutProgress++
		if f.WithoutProgress > s.maxFailures() {
			return
		}
		s.backOff(v1beta1.ReasonCrashBackOff, f.WithoutProgress)
	case v1beta1.OutcomeDisrupted:
		s.countDisruption(progress)
	case v1beta1.OutcomeRestoreFailed:
		s.backOff(v1beta1.ReasonRestoreBackOff, s.countRestoreFailure())
	case v1beta1.OutcomeYielded:
		switch s.yield.cause {
		case v1beta1.CauseStartupDeadline:
			s.holdForStartup()
		case v1beta1.CauseDisruption:
			s.countDisruption(progress)
		}
	}
}

// countDisruption backs off after a disruption before which nothing new was
// committed: what disturbed the attempt may disturb the next one too.
func (s *situation) countDisruption(progress bool) {
	if progress {
		return
	}
	s.next.Failures.Disruptions++
	s.backOff(v1beta1.ReasonDisruptionBackOff, s.next.Failures.Disruptions)
}

func (s *situation) holdForStartup() {
	s.hold(v1beta1.ReasonStartupDeadline, fmt.Sprintf("the pods of attempt %d were not ready within %s", s.attempt.number, s.startupDeadline()))
}

// newestCommit is the complete checkpoint of the attempt with the highest step,
// or nil; of two of the same step, that of the higher id.
func (s *situation) newestCommit(n int32) (best *checkpoint.Manifest) {
	for i := range s.Catalog.Manifests {
		m := &s.Catalog.Manifests[i]
		if m.Attempt != n || m.Defect != nil || m.Incomplete != "" {
			continue
		}
		if best == nil || m.Step > best.Step || m.Step == best.Step && m.ID > best.ID {
			best = m
		}
	}
	return best
}

// backOff waits before the next attempt: the policy's back-off, doubled with
// each further failure.
func (s *situation) backOff(reason string, count int32) {
	wait := doubled(orDefault(s.spec.FailurePolicy.Backoff.Duration, defaultBackoff), count)
	at := metav1.NewTime(s.Now.UTC())
	until := metav1.NewTime(s.Now.Add(wait).UTC())
	s.next.Hold = &v1beta1.HoldStatus{
		Reason: reason, Since: at, Until: &until, Count: count,
		Message: clip(fmt.Sprintf("attempt %d: %s", s.attempt.number, s.outcomeMessage(s.next.LastEnd.Outcome)), 1024),
	}
}

func doubled(base time.Duration, count int32) time.Duration {
	for range count - 1 {
		if base *= 2; base >= maxBackoff {
			return maxBackoff
		}
	}
	return min(base, maxBackoff)
}

// countRestoreFailure counts against the checkpoint that the attempt started from.
func (s *situation) countRestoreFailure() int32 {
	id := s.restorePoint(s.attempt)
	message := clip(s.outcomeMessage(v1beta1.OutcomeRestoreFailed), 1024)
	list := s.next.RestoreFailures
	for i := range list {
		if list[i].Checkpoint == id {
			list[i].Count++
			list[i].LastAttempt = s.attempt.number
			list[i].Message = message
			return list[i].Count
		}
	}
	list = append(list, v1beta1.RestoreFailure{Checkpoint: id, Count: 1, LastAttempt: s.attempt.number, Message: message})
	if extra := len(list) - v1beta1.MaxRestoreFailures; extra > 0 {
		list = list[extra:]
	}
	s.next.RestoreFailures = list
	return 1
}

// restorePoint is the checkpoint id that the attempt started from; empty when it
// started fresh.
func (s *situation) restorePoint(a *attempt) string {
	if a.jobset != nil {
		return clip(a.jobset.Meta.Annotations[v1beta1.AnnotationRestore], maxID)
	}
	if entry := s.ledgerEntry(a.number); entry != nil {
		return entry.RestoredFrom
	}
	return ""
}

// budgetSpent reports whether the failure budget is spent.
func (s *situation) budgetSpent() bool {
	if !s.judged() || s.attempt == nil {
		return false
	}
	o := s.next.LastEnd.Outcome
	failed := o == v1beta1.OutcomeFailed || o == v1beta1.OutcomeCompletedWithoutResult
	return failed && s.next.Failures.WithoutProgress > s.maxFailures()
}

// givenUpRestores are the checkpoints that failed to be restored too often.
func (s *situation) givenUpRestores() map[string]string {
	var avoid map[string]string
	for _, f := range s.next.RestoreFailures {
		if f.Count < restoreTries {
			continue
		}
		if avoid == nil {
			avoid = map[string]string{}
		}
		avoid[f.Checkpoint] = fmt.Sprintf("failed to be restored %d times, last by attempt %d: %s", f.Count, f.LastAttempt, f.Message)
	}
	return avoid
}

// restoreFailing: after three failures of one checkpoint the one before is tried
// once; when that fails too the job is Failed, and nothing is condemned. One that
// was quarantined since does not count, so the store has to be read.
func (s *situation) restoreFailing() bool {
	if s.attempt == nil || !s.judged() || s.next.LastEnd.Outcome != v1beta1.OutcomeRestoreFailed || !s.Catalog.Readable() {
		return false
	}
	if s.otherGivenUp() != "" {
		return true
	}
	current := s.restorePoint(s.attempt)
	tries := slices.ContainsFunc(s.next.RestoreFailures, func(f v1beta1.RestoreFailure) bool {
		return f.Checkpoint == current && f.Count >= restoreTries
	})
	return tries && !s.quarantined(current) && s.choose().Selected == nil
}

// otherGivenUp is a checkpoint that was tried in vain before the one that the
// attempt started from; empty when there is none.
func (s *situation) otherGivenUp() string {
	current := s.restorePoint(s.attempt)
	for _, f := range s.next.RestoreFailures {
		if f.Checkpoint != current && f.Count >= restoreTries && !s.quarantined(f.Checkpoint) {
			return f.Checkpoint
		}
	}
	return ""
}

func (s *situation) quarantined(id string) bool {
	_, ok := s.Catalog.Quarantined[id]
	return ok
}
