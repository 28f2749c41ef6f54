package compose

import "rtj.dev/rtj/api/v1beta1"

// Sync decides about a parent that is not being deleted. It never returns nil.
func Sync(o *Observation) *Decision { return decide(o, false) }

// Finalize decides about a parent that is being deleted: it drains, releases and
// lets go, and creates nothing, so that it works in a terminating namespace.
func Finalize(o *Observation) *Decision { return decide(o, true) }

// decide reads from top to bottom: what is so is gathered and remembered, then
// the tables decide what to do, then status says it.
func decide(o *Observation, deleting bool) *Decision {
	s := gather(o, deleting)
	d := s.decision

	s.next.RunID = s.runID()
	s.noteAttempt()
	s.notePodsEnding()
	s.askToYield()
	s.noteYield()
	s.endAttempt()
	s.judge()
	s.noteRelease()
	s.reviewHold()
	s.holdForStore()
	s.watchStore()
	s.recordAdmission()

	s.launch = first(s, "launch", launches)
	d.Children = append(d.Children, s.workloadChildren()...)
	d.Children = append(d.Children, s.jobSetChildren()...)
	if control := s.controlChild(); control != nil {
		d.Children = append(d.Children, *control)
	}
	d.Patches = s.patches()
	d.Finalized = deleting && s.letsGo()

	now := first(s, "phase", phases)
	s.next.Phase = now.phase
	s.mirror(now)
	s.summarize(now)

	d.Status = s.next
	if !s.wake.IsZero() {
		d.ResyncAfter = max(s.wake.Sub(s.Now), minResync)
	}
	return d
}

// letsGo: nothing runs and no quota is held.
func (s *situation) letsGo() bool {
	if !s.ended() || s.mightStart() || s.runsThough() || s.workload.reserved() {
		return false
	}
	for _, w := range s.leftover {
		if w.reserved() {
			return false
		}
	}
	return true
}

// notePodsEnding remembers since when the attempt shows pods terminating that
// nobody asked to end.
func (s *situation) notePodsEnding() {
	if p := s.next.PodsEnding; p != nil && (s.attempt == nil || p.Attempt != s.attempt.number) {
		s.next.PodsEnding = nil
	}
	if !s.live() || s.yield != nil || s.next.PodsEnding != nil || !s.attempt.endedUnasked() {
		return
	}
	s.next.PodsEnding = &v1beta1.PodsEnding{Attempt: s.attempt.number, Since: wholeSeconds(s.Now)}
}
