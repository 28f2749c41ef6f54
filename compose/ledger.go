package compose

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose/checkpoint"
)

// maxID is the longest checkpoint id that status has room for, in bytes.
const maxID = 128

// wholeSeconds is a time as the API has it.
func wholeSeconds(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

func timePtr(t time.Time) *metav1.Time {
	m := wholeSeconds(t)
	return &m
}

// ledgerEntry returns the entry of an attempt in the status to be written.
func (s *situation) ledgerEntry(n int32) *v1beta1.LedgerEntry {
	for i := len(s.next.Ledger) - 1; i >= 0; i-- {
		if s.next.Ledger[i].Attempt == n {
			return &s.next.Ledger[i]
		}
	}
	return nil
}

// noteAttempt brings the current attempt's number into status once its claim or
// its run is seen together with its JobSet, and opens its account.
func (s *situation) noteAttempt() {
	a := s.attempt
	if a == nil || a.jobset == nil {
		return
	}
	s.next.Attempt = max(s.next.Attempt, a.number)
	entry := s.ledgerEntry(a.number)
	if entry == nil {
		s.openAccount(a)
		entry = s.ledgerEntry(a.number)
	}
	s.noteClaim(entry)
	if entry.ReadyAt == nil && a.ran() && a.allReady() {
		entry.ReadyAt = timePtr(s.Now)
	}
	// That it started is known from the JobSet, so it alone is not worth a write.
	if a.ran() && entry.StartedAt == nil && (entry.ReadyAt != nil || s.yield != nil || a.drained()) {
		entry.StartedAt = timePtr(s.startedAt(a))
		s.startedLate(a, entry)
	}
}

func (s *situation) startedAt(a *attempt) time.Time {
	if at, err := a.noted(); err == nil {
		return at
	}
	return s.Now
}

// noted is when the JobSet was started, as the update that did it says.
func (a *attempt) noted() (time.Time, error) {
	return time.Parse(time.RFC3339, a.jobset.Meta.Annotations[v1beta1.AnnotationStarted])
}

// startedLate keeps the account in order of an attempt that was started by an update
// which was under way when it had ended, or whose start nobody noted.
func (s *situation) startedLate(a *attempt, entry *v1beta1.LedgerEntry) {
	switch _, unknown := a.noted(); {
	case entry.StoppedAt == nil:
	case unknown != nil:
		entry.StartedAt = timePtr(entry.StoppedAt.Time)
	case entry.StoppedAt.Before(entry.StartedAt):
		entry.StoppedAt = timePtr(entry.StartedAt.Time)
	}
}

func (s *situation) openAccount(a *attempt) {
	entry := v1beta1.LedgerEntry{Attempt: a.number, RestoredFrom: clip(a.jobset.Meta.Annotations[v1beta1.AnnotationRestore], maxID)}
	if s.claimed() {
		entry.WorldSize = s.worldSize()
		entry.AdmittedAt = timePtr(s.reservation.ReservedAt.Time)
	}
	if n := len(s.next.Ledger); n > 0 {
		noteReleasedBefore(&s.next.Ledger[n-1], entry.AdmittedAt)
	}
	if y := s.next.Yield; y != nil && y.Attempt < a.number {
		s.next.Yield = nil
	}
	s.next.Checkpoint.RestoredFrom = s.restoredFrom(entry.RestoredFrom)
	if from := s.next.Checkpoint.RestoredFrom; from != nil {
		entry.RestoredStep = from.Step
	}
	if entry.RestoredStep < s.next.Failures.BestStep && (entry.RestoredFrom == "" || s.spec.Resume.From != "") {
		// A person went back, so progress is what is made from there on.
		s.next.Failures = v1beta1.FailureStatus{BestStep: entry.RestoredStep}
	}
	s.next.Ledger = append(s.next.Ledger, entry)
	for len(s.next.Ledger) > v1beta1.MaxLedgerEntries {
		s.closeAccount(&s.next.Ledger[0])
		s.next.Ledger = s.next.Ledger[1:]
	}
}

// noteReleasedBefore has the account of the attempt before end at the latest when
// quota was reserved anew: that it was given back may be seen only after that, or not
// at all.
func noteReleasedBefore(before *v1beta1.LedgerEntry, admitted *metav1.Time) {
	if admitted == nil || before.AdmittedAt == nil || admitted.Equal(before.AdmittedAt) {
		return // the same reservation, or nobody knows
	}
	if before.StoppedAt == nil || admitted.Before(before.StoppedAt) {
		return // its quota was freed while it ran
	}
	if before.ReleasedAt == nil || before.ReleasedAt.After(admitted.Time) {
		before.ReleasedAt = admitted
	}
}

// restoredFrom names the checkpoint of that id, also while the store cannot be
// read; nil when there is none.
func (s *situation) restoredFrom(id string) *v1beta1.CheckpointRef {
	if id == "" {
		return nil
	}
	if s.Catalog != nil {
		for i := range s.Catalog.Manifests {
			if m := &s.Catalog.Manifests[i]; m.ID == id {
				return s.reference(m)
			}
		}
	}
	ref := &v1beta1.CheckpointRef{ID: clip(id, maxID)}
	if attempt, step, _, _, err := checkpoint.ParseID(id); err == nil {
		ref.Attempt, ref.Step = attempt, step
	}
	return ref
}

// closeAccount adds an entry that leaves the ledger to the totals.
func (s *situation) closeAccount(e *v1beta1.LedgerEntry) {
	t := &s.next.Totals
	t.Attempts++
	if e.LostSteps != nil {
		t.LostSteps += *e.LostSteps
	}
	if e.StartedAt != nil && e.StoppedAt != nil {
		t.RunSeconds += max(0, int64(e.StoppedAt.Sub(e.StartedAt.Time).Seconds()))
	}
}

// noteYield brings the request into the account.
func (s *situation) noteYield() {
	if s.yield == nil || !s.live() {
		return
	}
	if entry := s.ledgerEntry(s.attempt.number); entry.YieldAskedAt == nil {
		entry.YieldAskedAt, entry.YieldCause = timePtr(s.yield.issuedAt), s.yield.cause
	}
}

// noteRecords brings what the workers wrote about the current attempt into its
// account: while it runs only what marks a transition, at its end everything.
func (s *situation) noteRecords(everything bool) {
	if s.attempt == nil || !s.Catalog.Readable() {
		return
	}
	entry := s.ledgerEntry(s.attempt.number)
	if entry == nil {
		return
	}
	r := s.records()
	if p := r.Progress; p != nil && p.FirstStepAt != nil && entry.FirstStepAt == nil {
		at := metav1.NewTime(p.FirstStepAt.UTC())
		entry.FirstStepAt = &at
		if from := s.next.Checkpoint.RestoredFrom; from != nil {
			from.Verified = v1beta1.VerifiedRestored
		}
	}
	if !everything {
		return
	}
	if p := r.Progress; p != nil && p.Yield != nil && p.Yield.ID == entry.Attempt && p.Yield.AcknowledgedAt != nil {
		entry.AcknowledgedAt = timePtr(*p.Yield.AcknowledgedAt)
	}
	committed, at := entry.RestoredStep, time.Time{}
	if m := s.newestCommit(s.attempt.number); m != nil && m.Step >= committed {
		committed, at = m.Step, m.CommittedAt
	}
	if !at.IsZero() {
		step := committed
		entry.CommittedStep, entry.CommittedAt = &step, timePtr(at)
	}
	last := committed
	if r.Progress != nil {
		last = max(last, r.Progress.Step)
	}
	if r.Result != nil {
		last = max(last, r.Result.Step)
	}
	if r.Progress == nil && r.Result == nil && at.IsZero() {
		// Without any record nothing is known about steps.
		return
	}
	entry.LastStep = &last
	if s.judged() {
		lost := last - committed
		entry.LostSteps = &lost
	}
}

// noteRelease notes since when the ended attempt's quota is given back.
func (s *situation) noteRelease() {
	if s.attempt == nil || !s.judged() || s.workload.reserved() {
		return
	}
	if entry := s.ledgerEntry(s.attempt.number); entry != nil && entry.ReleasedAt == nil {
		entry.ReleasedAt = timePtr(s.Now)
	}
}
