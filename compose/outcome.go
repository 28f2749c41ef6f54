package compose

import (
	"fmt"
	"time"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose/checkpoint"
)

// Exit codes of rtj-run; docs/formats.md.
const (
	exitYielded       = 75
	exitNotServiced   = 76
	exitRestoreFailed = 77
)

// foreignClockMargin is added where the end of an attempt was observed by
// another process, whose clock may differ.
const foreignClockMargin = 30 * time.Second

// outcomes is the verdict on an ended attempt, read after everything that it
// committed can be seen.
var outcomes = []rule[v1beta1.Outcome]{
	{name: "NeverStarted", when: func(s *situation) bool { return !s.started() }, then: outcome(v1beta1.OutcomeDisrupted)},
	{name: "ResultFinished", when: result(checkpoint.ResultFinished), then: outcome(v1beta1.OutcomeFinished)},
	{name: "HungAfterFailedRestore", when: func(s *situation) bool {
		return s.restorePoint(s.attempt) != "" && s.hungAfter(checkpoint.ResultRestoreFailed)
	}, then: outcome(v1beta1.OutcomeRestoreFailed)},
	{name: "HungAfterFailure", when: func(s *situation) bool {
		return s.hungAfter(checkpoint.ResultFailed) || s.hungAfter(checkpoint.ResultRestoreFailed)
	}, then: outcome(v1beta1.OutcomeFailed)},
	{name: "YieldAsked", when: func(s *situation) bool { return s.yield != nil }, then: outcome(v1beta1.OutcomeYielded),
		why: func(s *situation) string { return string(s.yield.cause) }},
	{name: "ResultYielded", when: func(s *situation) bool {
		return result(checkpoint.ResultYielded)(s) || result(checkpoint.ResultYieldNotServiced)(s)
	}, then: outcome(v1beta1.OutcomeDisrupted)},
	{name: "ExitCodeOfAYield", when: func(s *situation) bool { return s.exited(exitYielded) || s.exited(exitNotServiced) }, then: outcome(v1beta1.OutcomeDisrupted),
		why: (*situation).failureMessage},
	{name: "DisruptionTarget", when: func(s *situation) bool { return s.attempt.disrupted() }, then: outcome(v1beta1.OutcomeDisrupted),
		why: (*situation).failureMessage},
	{name: "PodsEndedUnasked", when: (*situation).sawPodsEnding, then: outcome(v1beta1.OutcomeDisrupted)},
	{name: "SuspendedByOthers", when: func(s *situation) bool { return s.attempt.jobset != nil && !s.attempt.finished() }, then: outcome(v1beta1.OutcomeDisrupted)},
	{name: "JobSetGone", when: func(s *situation) bool { return s.attempt.jobset == nil }, then: outcome(v1beta1.OutcomeDisrupted)},
	// What started fresh had nothing to restore: then the code is the program's own.
	{name: "RestoreFailed", when: func(s *situation) bool {
		return s.restorePoint(s.attempt) != "" && (result(checkpoint.ResultRestoreFailed)(s) || s.exited(exitRestoreFailed))
	}, then: outcome(v1beta1.OutcomeRestoreFailed), why: (*situation).failureMessage},
	{name: "CompletedWithoutResult", when: func(s *situation) bool { return s.attempt.completed() && s.Catalog.HasRecords(s.attempt.number) },
		then: outcome(v1beta1.OutcomeCompletedWithoutResult)},
	{name: "CompletedWithoutSDK", when: func(s *situation) bool { return s.attempt.completed() }, then: outcome(v1beta1.OutcomeFinished)},
	{name: "ApplicationFailed", when: always, then: outcome(v1beta1.OutcomeFailed), why: (*situation).failureMessage},
}

// hungAfter: the attempt was asked to end only since pods of it hung after its workers
// had recorded how it ended.
func (s *situation) hungAfter(want string) bool {
	return s.yield != nil && s.yield.cause == v1beta1.CauseDisruption && result(want)(s) && s.records().Result.EndedAt.Before(s.yield.issuedAt)
}

func outcome(o v1beta1.Outcome) func(*situation) v1beta1.Outcome {
	return func(*situation) v1beta1.Outcome { return o }
}

func result(want string) func(*situation) bool {
	return func(s *situation) bool {
		r := s.records().Result
		return r != nil && r.Outcome == want
	}
}

// started reports whether the current attempt may have run: its JobSet did, or
// is gone, so that nobody can tell.
func (s *situation) started() bool { return s.attempt.jobset == nil || s.attempt.ran() }

func (s *situation) exited(code int) bool { return s.attempt.exited(code) }

func (s *situation) sawPodsEnding() bool {
	return s.next.PodsEnding != nil && s.next.PodsEnding.Attempt == s.attempt.number
}

func (s *situation) failureMessage() string { return s.attempt.failureMessage() }

// readAfterEnd is the earliest beginning of a listing that shows all that the
// ended attempt committed.
func (s *situation) readAfterEnd() time.Time {
	if s.next.LastEnd == nil {
		return time.Time{}
	}
	at := s.next.LastEnd.At.Time
	if s.was.LastEnd != nil && s.was.LastEnd.Attempt == s.next.LastEnd.Attempt {
		// The API keeps whole seconds, cut off.
		at = at.Add(time.Second)
	}
	if s.next.LastEnd.ObservedBy != clip(s.Observer, maxObserver) {
		at = at.Add(foreignClockMargin)
	}
	return at
}

// judge gives the verdict on the ended attempt, once the store was read after
// its end, and draws what follows for the failure budget.
func (s *situation) judge() {
	if s.attempt == nil || !s.ended() || s.judged() {
		return
	}
	switch {
	case s.deleting:
		s.setOutcome(v1beta1.OutcomeYielded)
		return
	case !s.started():
		s.setOutcome(first(s, "outcome", outcomes))
		if s.holdsClaim() && s.startupOverdue() {
			s.holdForStartup()
		}
		return
	case !s.catalogSince(s.readAfterEnd()):
		return
	case !s.Catalog.Readable():
		s.verdictWaits()
		return
	}
	s.setOutcome(first(s, "outcome", outcomes))
	s.countOutcome()
}

// verdictWaits: the store cannot be read. The quota is not kept for that.
func (s *situation) verdictWaits() {
	if !s.reached(s.next.LastEnd.At.Add(unusableAfter)) {
		s.wakeAfter(pollUnusable)
		s.wantCatalogAgain(pollUnusable)
		return
	}
	if s.holding() {
		return
	}
	s.hold(v1beta1.ReasonVerdictPending, fmt.Sprintf("attempt %d ended; how it ended is not known until the store can be read: %s", s.attempt.number, s.Catalog.Failure.Message))
}

func (s *situation) setOutcome(o v1beta1.Outcome) {
	s.next.LastEnd.Outcome = o
	entry := s.ledgerEntry(s.attempt.number)
	if entry == nil {
		return
	}
	entry.Outcome = o
	entry.Message = clip(s.outcomeMessage(o), 1024)
	if o == v1beta1.OutcomeYielded && s.yield != nil && s.yield.cause == v1beta1.CausePreempted {
		s.next.Preemptions++
	}
}

// outcomeMessage is one line for a person; the workers' own comes first.
func (s *situation) outcomeMessage(o v1beta1.Outcome) string {
	if r := s.records().Result; r != nil && r.Message != "" {
		return r.Message
	}
	if entry := s.ledgerEntry(s.attempt.number); entry != nil && entry.Message != "" {
		return entry.Message
	}
	if text := s.attempt.failureMessage(); text != "" && o != v1beta1.OutcomeYielded {
		return text
	}
	switch {
	case !s.started():
		return "never started: " + s.withdrawn()
	case o == v1beta1.OutcomeYielded && s.yield != nil:
		return "asked to end: " + string(s.yield.cause)
	case o == v1beta1.OutcomeCompletedWithoutResult:
		return "its processes exited with 0 and never called finish()"
	case s.attempt.jobset == nil:
		return "its JobSet was deleted by someone else"
	case o == v1beta1.OutcomeDisrupted && !s.attempt.finished():
		return "its JobSet was suspended by someone else"
	case s.sawPodsEnding():
		return "pods of it were ended by someone else"
	}
	return string(o)
}

// withdrawn is why the attempt, which was claimed, was not started.
func (s *situation) withdrawn() string {
	switch {
	case s.deleting:
		return "the job was deleted before"
	case s.spec.Suspend:
		return "the job was suspended before"
	case !s.holdsClaim() && s.yield != nil:
		return "it was asked to end before"
	case !s.holdsClaim():
		return "its admission was lost before"
	case s.startupOverdue():
		return "the startup deadline came first"
	case s.confirmation() != refuted:
		return "it was given up before"
	case s.Catalog.Readable() && s.noneFits():
		return "the store, read once more, has no checkpoint to resume from: " + s.noneFitsMessage()
	case s.Catalog.Readable():
		return "the store, read once more, names another checkpoint to resume from"
	}
	return "the checkpoint store could not be read: " + s.Catalog.Failure.Message
}

func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	cut := limit - len("…")
	for cut > 0 && text[cut]&0xC0 == 0x80 {
		cut--
	}
	return text[:cut] + "…"
}
