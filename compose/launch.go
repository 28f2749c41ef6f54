package compose

import (
	"errors"
	"fmt"
	"time"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"rtj.dev/rtj/api/v1beta1"
)

// catalogForLaunch is how old a reading of the store may be that a launch relies on.
const catalogForLaunch = 30 * time.Second

// launch is what stands between the job and its next attempt.
type launch struct {
	// wanted is the next attempt's JobSet; nil while something is in the way.
	wanted *Child
	number int32
	// reason and message say what is in the way.
	reason  string
	message string
	// release asks for the quota to be given back, since it cannot be used.
	release bool
	// keep lets a JobSet that was prepared stay: the store is read again, and most
	// likely it is what will be wanted.
	keep bool
}

func waits(reason string) func(*situation) launch {
	return func(*situation) launch { return launch{reason: reason} }
}

// launches is the chain of what must be so before an attempt is prepared; it
// reads from top to bottom.
var launches = []rule[launch]{
	{name: "Terminal", when: (*situation).terminal, then: waits("")},
	{name: "Deleted", when: func(s *situation) bool { return s.deleting }, then: waits("")},
	{name: "Suspended", when: func(s *situation) bool { return s.spec.Suspend }, then: waits(v1beta1.ReasonPaused)},
	{name: "AttemptNotEnded", when: func(s *situation) bool { return !s.ended() || s.runsThough() }, then: waits("")},
	{name: "VerdictPending", when: func(s *situation) bool { return !s.judged() }, then: waits(v1beta1.ReasonVerdictPending)},
	{name: "EndsHere", when: (*situation).endsHere, then: waits("")},
	{name: "EndNotRemembered", when: func(s *situation) bool { return s.attempt != nil && !s.endStands() }, then: (*situation).launchSoon},
	{name: "NoAdmission", when: func(s *situation) bool { return !s.workload.reserved() }, then: waits("")},
	{name: "AdmissionGoes", when: (*situation).admissionGoes, then: waits("")},
	{name: "BackOff", when: func(s *situation) bool { return s.holding() && keepsAdmission(s.next.Hold) }, then: (*situation).launchBackOff},
	{name: "OnHold", when: (*situation).holding, then: (*situation).launchOnHold},
	{name: "AdmissionChecks", when: func(s *situation) bool { return !s.workload.admitted() }, then: waits(v1beta1.ReasonAwaitingAdmissionChecks)},
	{name: "TemplateChanged", when: func(s *situation) bool { return !s.shapeCurrent() }, then: releases(v1beta1.ReasonTemplateChanged, "the template asks for another shape than the one that was admitted")},
	{name: "PodsWouldBeCaptured", when: func(s *situation) bool { return s.podsNotCaptured().reason != "" }, then: (*situation).launchCaptured},
	{name: "CatalogToBeRead", when: (*situation).catalogStale, then: launchRead},
	{name: "StoreUnreadable", when: func(s *situation) bool { return !s.Catalog.Readable() }, then: (*situation).launchStoreUnreadable},
	{name: "NoCompatibleCheckpoint", when: (*situation).noneFits, then: (*situation).launchNoneFits},
	{name: "AttemptsExhausted", when: (*situation).exhausted, then: waits(v1beta1.ReasonAttemptsExhausted)},
	{name: "Refused", when: (*situation).refused, then: (*situation).launchRefused},
	{name: "Wanted", when: always, then: (*situation).launchNext},
}

func releases(reason, message string) func(*situation) launch {
	return func(*situation) launch { return launch{reason: reason, message: message, release: true} }
}

// endsHere: the verdict makes the job Succeeded or Failed.
func (s *situation) endsHere() bool {
	return s.attempt != nil && s.judged() && (s.next.LastEnd.Outcome == v1beta1.OutcomeFinished || s.budgetSpent() || s.restoreFailing())
}

// admissionGoes: Kueue takes the admission back, or someone deletes it.
func (s *situation) admissionGoes() bool {
	return s.workload.evicted() || !s.workload.active() || s.workload.Meta.DeletionTimestamp != nil
}

// launchSoon: the end and what follows from it are written into status first.
func (s *situation) launchSoon() launch {
	if s.holding() && keepsAdmission(s.next.Hold) {
		return s.launchBackOff()
	}
	return launch{reason: v1beta1.ReasonAdmitted}
}

func (s *situation) launchBackOff() launch {
	return launch{reason: v1beta1.ReasonBackOff, message: fmt.Sprintf("the next attempt starts at %s: %s", s.next.Hold.Until.UTC().Format(time.RFC3339), s.next.Hold.Message)}
}

func (s *situation) launchOnHold() launch {
	return launch{reason: s.next.Hold.Reason, message: s.next.Hold.Message, release: s.holdStands()}
}

// launchCaptured: a LocalQueue that came while the job was in the queue, or runs.
func (s *situation) launchCaptured() launch {
	l := s.podsNotCaptured()
	return s.unusable(l.reason, l.message)
}

// usableSince is since when the admission that is held waits to be used.
func (s *situation) usableSince() time.Time {
	since := s.reservation.ReservedAt.Time
	if s.next.LastEnd != nil && s.next.LastEnd.At.After(since) {
		since = s.next.LastEnd.At.Time
	}
	if h := s.next.Hold; h != nil && h.Until != nil && h.Until.After(since) {
		since = h.Until.Time
	}
	return since
}

func launchRead(*situation) launch {
	return launch{reason: v1beta1.ReasonChoosingCheckpoint, keep: true}
}

// catalogStale asks for a reading that is new enough to choose from.
func (s *situation) catalogStale() bool {
	since := s.readAfterEnd()
	if recent := s.Now.Add(-catalogForLaunch); recent.After(since) {
		since = recent
	}
	s.decision.Catalog.Recheck = s.wouldRestore()
	return !s.catalogSince(since)
}

// wouldRestore is the id of what the next attempt would restore, by what is known
// of the store; none where it would start afresh.
func (s *situation) wouldRestore() []string {
	if selected := s.choose().Selected; selected != nil {
		return []string{selected.ID}
	}
	return nil
}

// unusable waits for half a minute before the admission is given back.
func (s *situation) unusable(reason, message string) launch {
	due := s.usableSince().Add(unusableAfter)
	if s.reached(due) {
		s.hold(reason, message)
	}
	return launch{reason: reason, message: message}
}

// unusableYet is unusable for a reason that another reading of the store may take
// away.
func (s *situation) unusableYet(reason, message string) launch {
	l := s.unusable(reason, message)
	if !s.holding() {
		s.wantCatalogAgain(pollUnusable)
	}
	return l
}

// unusableAtOnce gives the admission back without waiting for it to become usable.
func (s *situation) unusableAtOnce(err error) launch {
	s.hold(v1beta1.ReasonAdmissionUnusable, err.Error())
	return launch{reason: v1beta1.ReasonAdmissionUnusable, message: err.Error()}
}

func (s *situation) launchStoreUnreadable() launch {
	l := s.unusableYet(string(s.Catalog.Failure.Kind), s.storeMessage())
	l.keep = true
	return l
}

func (s *situation) launchNoneFits() launch {
	return s.unusableYet(v1beta1.ReasonNoCompatibleCheckpoint, s.noneFitsMessage())
}

func (s *situation) exhausted() bool { return s.nextNumber() > maxAttempt }

// refused: a dry run of the JobSet's creation was refused by the API server.
func (s *situation) refused() bool {
	return s.Launch != nil && s.Launch.Refused != "" && s.Launch.JobSet == attemptName(s.Parent.Name, s.nextNumber()) && s.prepared == nil
}

func (s *situation) launchRefused() launch {
	s.hold(v1beta1.ReasonLaunchRefused, "the API server refuses the JobSet: "+s.Launch.Refused)
	return launch{reason: v1beta1.ReasonLaunchRefused, message: s.next.Hold.Message}
}

// nextNumber is one more than the largest number that was ever used: in status,
// by a JobSet that ran, in the store, in the control document, by a claim of another
// reservation, or by a foreign object's name. A claim of this reservation whose
// JobSet has not run is used again.
func (s *situation) nextNumber() int32 {
	used := max(s.was.Attempt, s.Catalog.HighestAttempt())
	if s.attempt != nil {
		used = max(used, s.attempt.number)
	}
	if end := s.was.LastEnd; end != nil {
		used = max(used, end.Attempt)
	}
	if s.document != nil && s.document.Attempt <= maxAttempt {
		used = max(used, s.document.Attempt)
	}
	if p := s.Launch; p != nil && p.Foreign {
		used = max(used, attemptNumber(s.Parent.Name, p.JobSet))
	}
	if s.claim != nil && s.claim.Attempt > used {
		if s.claimIsCurrent() {
			return s.claim.Attempt
		}
		used = s.claim.Attempt
	}
	return min(used, maxAttempt) + 1
}

func (s *situation) launchNext() launch { return s.prepare(s.nextNumber()) }

// prepare builds attempt n, or says why the admission cannot be used for it.
func (s *situation) prepare(n int32) launch {
	sets, err := s.judgeAdmission()
	switch {
	case errors.Is(err, errOlderPodSets):
		return launch{reason: v1beta1.ReasonAdmissionUnusable, message: err.Error(), release: true}
	case errors.Is(err, errNoFlavor):
		return s.unusable(v1beta1.ReasonAdmissionUnusable, err.Error())
	case err != nil:
		return s.unusableAtOnce(err)
	}
	restore := s.choose().Selected
	want := launch{number: n, reason: v1beta1.ReasonAdmitted}
	if j := s.prepared; j != nil && s.usable(j, n) {
		want.wanted = &Child{APIVersion: jobSetAPI, Kind: jobSetKind, Name: j.Meta.Name, Observed: j.Raw}
		return want
	}
	built, err := s.buildJobSet(n, sets, restore)
	if err != nil {
		return s.unusableAtOnce(err)
	}
	want.wanted = &Child{APIVersion: jobSetAPI, Kind: jobSetKind, Name: built.Name, New: built}
	if s.prepared == nil {
		s.decision.Launch = want.wanted
	}
	return want
}

// usable reports whether a JobSet that never ran is what would be built now.
func (s *situation) usable(j *JobSet, n int32) bool {
	return j.Meta.Name == attemptName(s.Parent.Name, n) && j.Meta.DeletionTimestamp == nil &&
		j.builtFor().equal(s.reservation) && s.restores(j) && s.templateCurrent(j)
}

func isDeactivation(reason string) bool {
	return len(reason) >= len(kueue.WorkloadDeactivated) && reason[:len(kueue.WorkloadDeactivated)] == kueue.WorkloadDeactivated
}
