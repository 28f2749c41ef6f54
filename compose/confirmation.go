package compose

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/api/v1beta1"
)

// confirmation is what the store says about the restore point of a claimed attempt.
// It was chosen before the LIST of the claim; until that, a pod of an attempt before
// may have committed another checkpoint.
type confirmation int

const (
	// unconfirmed: no reading says it yet.
	unconfirmed confirmation = iota
	// confirmed: the same would be chosen now, and nothing can have come after.
	confirmed
	// refuted: another would be chosen, or the store cannot be read for long.
	refuted
)

// noteClaim notes since when the claim of the attempt is known to stand: the LIST came
// before. A reading that begins from now on shows all that was committed.
func (s *situation) noteClaim(entry *v1beta1.LedgerEntry) {
	if s.isFirstAttempt() || !s.unstarted() || !s.claimed() {
		return
	}
	// Of another process's clock, which is ahead, it would be waited for.
	if at := claimedAt(entry); !at.IsZero() && !at.After(s.Now) {
		return
	}
	entry.ClaimedAt = s.Now.UTC().Format(metav1.RFC3339Micro)
}

// claimedAt is since when the claim is known to stand; zero: it is not. What cannot be
// read counts as not known, and is noted anew.
func claimedAt(entry *v1beta1.LedgerEntry) time.Time {
	at, err := time.Parse(time.RFC3339, entry.ClaimedAt)
	if err != nil {
		return time.Time{}
	}
	return at
}

// isFirstAttempt reports whether no attempt before can have left anything.
func (s *situation) isFirstAttempt() bool { return s.attempt.number == 1 }

// confirmation of the current attempt, which was claimed and has not started. While it is
// not known, a reading is asked for, which checks what would be restored object by object.
func (s *situation) confirmation() confirmation {
	if s.isFirstAttempt() {
		return confirmed
	}
	entry := s.ledgerEntry(s.attempt.number)
	if entry == nil {
		return unconfirmed
	}
	since := claimedAt(entry)
	if since.IsZero() {
		return unconfirmed
	}
	s.decision.Catalog.Recheck = s.wouldRestore()
	switch {
	case !s.catalogSince(since):
		return unconfirmed
	case s.Catalog.Readable() && !s.noneFits() && s.restores(s.attempt.jobset):
		return confirmed
	case s.Catalog.Readable():
		return refuted
	}
	if !s.reached(since.Add(unusableAfter)) {
		s.wantCatalogAgain(pollUnusable)
		return unconfirmed
	}
	return refuted
}

// restores reports whether a JobSet was built for the checkpoint that would be chosen
// now.
func (s *situation) restores(j *JobSet) bool {
	restore := ""
	if m := s.choose().Selected; m != nil {
		restore = m.ID
	}
	return j.Meta.Annotations[v1beta1.AnnotationRestore] == restore
}
