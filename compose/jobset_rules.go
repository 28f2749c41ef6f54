package compose

import (
	"time"

	"rtj.dev/rtj/api/v1beta1"
)

// jobSetChildren are the JobSets that should exist: the current attempt's, the
// one that is prepared, and at most one older one whose logs can be read.
func (s *situation) jobSetChildren() []Child {
	var children []Child
	add := func(c *Child) {
		if c != nil {
			children = append(children, *c)
		}
	}
	for _, a := range s.older {
		add(s.olderJobSet(a))
	}
	if s.attempt != nil && s.attempt.jobset != nil {
		add(first(s, "attempt-jobset", attemptJobSets))
	}
	// The prepared JobSet stays only while it is what would be built now.
	switch want := s.launch.wanted; {
	case want != nil && (s.prepared == nil || want.New == nil):
		add(want)
	case s.launch.keep && s.prepared != nil && s.prepared.builtFor().equal(s.reservation):
		add(&Child{APIVersion: jobSetAPI, Kind: jobSetKind, Name: s.prepared.Meta.Name, Observed: s.prepared.Raw})
	}
	return children
}

// attemptJobSets decides about the current attempt's JobSet.
var attemptJobSets = []rule[*Child]{
	{name: "Terminal", when: func(s *situation) bool { return s.terminal() && !s.live() && !s.startedAgain() }, then: (*situation).keepJobSet},
	{name: "NotRemembered", when: func(s *situation) bool { return s.was.Attempt < s.attempt.number && s.attempt.ran() }, then: (*situation).keepJobSet},
	{name: "StopDue", when: func(s *situation) bool { return s.live() && !s.attempt.finished() && s.stopDue() }, then: (*situation).suspendJobSet,
		why: func(s *situation) string { return s.yield.forPeople() }},
	{name: "Live", when: (*situation).live, then: (*situation).keepJobSet},
	{name: "GivenUp", when: func(s *situation) bool { return s.forced(s.attempt.number) }, then: nothing[*Child]},
	{name: "StartedAgain", when: (*situation).startedAgain, then: (*situation).suspendJobSet},
	{name: "StartsNow", when: (*situation).startsNow, then: (*situation).startJobSet},
	{name: "ClaimedAndWaits", when: func(s *situation) bool { return s.unstarted() && s.mayStart() }, then: (*situation).keepJobSet},
	{name: "NeverStarted", when: func(s *situation) bool { return !s.attempt.ran() }, then: nothing[*Child]},
	{name: "EndNotRemembered", when: func(s *situation) bool { return !s.deleting && !s.endStands() }, then: (*situation).keepJobSet},
	{name: "KeptForItsLogs", when: func(s *situation) bool { return !s.deleting && keepsLogs(s.next.LastEnd.Outcome) }, then: (*situation).keepJobSet},
	{name: "Ended", when: always, then: nothing[*Child]},
}

func keepsLogs(o v1beta1.Outcome) bool {
	switch o {
	case v1beta1.OutcomeFailed, v1beta1.OutcomeCompletedWithoutResult, v1beta1.OutcomeRestoreFailed, v1beta1.OutcomeFinished:
		return true
	}
	return false
}

// mayStart: the attempt holds the claim of the reservation that its JobSet was
// built for, nobody has asked it to end, nothing has happened that would take the
// claim away, what it restores is still the newest, and it is not too late: the API
// server may refuse the update that starts it.
func (s *situation) mayStart() bool {
	return s.holdsClaim() && !s.startupOverdue() && s.confirmation() != refuted
}

func (s *situation) holdsClaim() bool {
	return !s.deleting && !s.terminal() && !s.spec.Suspend && s.yield == nil && s.claimed() && !s.admissionGoes() &&
		s.isClaimed(s.attempt.jobset)
}

// startsNow: the third and last step of an attempt. The claim is observed,
// status has the attempt, the restore point is confirmed, and the admission stands.
func (s *situation) startsNow() bool {
	return s.unstarted() && s.mayStart() && s.workload.admitted() &&
		s.was.Attempt == s.attempt.number && s.confirmation() == confirmed && s.attempt.jobset.Meta.DeletionTimestamp == nil
}

func (s *situation) keepJobSet() *Child {
	return &Child{APIVersion: jobSetAPI, Kind: jobSetKind, Name: s.attempt.jobset.Meta.Name, Observed: s.attempt.jobset.Raw}
}

func (s *situation) startJobSet() *Child {
	child := s.keepJobSet()
	child.Set = []Field{
		{Path: []string{"metadata", "annotations", v1beta1.AnnotationStarted}, Value: s.Now.UTC().Format(time.RFC3339)},
		{Path: []string{"spec", "suspend"}, Value: false},
	}
	return child
}

func (s *situation) suspendJobSet() *Child {
	child := s.keepJobSet()
	if !s.attempt.jobset.suspended() {
		child.Set = []Field{{Path: []string{"spec", "suspend"}, Value: true}}
	}
	return child
}

// olderJobSet keeps the newest older attempt that failed, so that its logs can be
// read until another one fails or the job ends. No other rule reads it. One that
// still runs, which must not be, is stopped.
func (s *situation) olderJobSet(a *attempt) *Child {
	child := &Child{APIVersion: jobSetAPI, Kind: jobSetKind, Name: a.jobset.Meta.Name, Observed: a.jobset.Raw}
	if a.ran() && !a.finished() && !a.drained() && !s.forced(a.number) {
		if a.running() {
			child.Set = []Field{{Path: []string{"spec", "suspend"}, Value: true}}
		}
		return child
	}
	if a.ran() && s.was.Attempt < a.number {
		return child
	}
	newest := s.older[0] == a
	ends := s.terminal() || s.deleting
	replaced := s.endStands() && keepsLogs(s.was.LastEnd.Outcome)
	if newest && a.finished() && !ends && !replaced {
		return child
	}
	return nil
}
