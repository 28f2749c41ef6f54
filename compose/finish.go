package compose

import (
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"rtj.dev/rtj/api/v1beta1"
)

// finishes: the Workload of a job that ended for good is Finished, which frees
// its quota and keeps Kueue's history. The end must stand in the observed status.
var finishes = []rule[string]{
	{name: "NotOver", when: func(s *situation) bool { return !s.terminal() || s.deleting }, then: nothing[string]},
	{name: "NoWorkload", when: func(s *situation) bool { return s.workload == nil || s.workload.finished() }, then: nothing[string]},
	{name: "AttemptNotEnded", when: func(s *situation) bool { return !s.ended() || s.runsThough() }, then: nothing[string]},
	{name: "Succeeded", when: func(s *situation) bool { return s.was.Phase == v1beta1.PhaseSucceeded }, then: func(*situation) string { return kueue.WorkloadFinishedReasonSucceeded }},
	{name: "Failed", when: always, then: func(*situation) string { return kueue.WorkloadFinishedReasonFailed }},
}

func (s *situation) finishPatch() *Patch {
	reason := first(s, "finish", finishes)
	if reason == "" {
		return nil
	}
	conditions := newConditions(s, s.workload)
	conditions.set(kueue.WorkloadFinished, "True", reason, s.readyMessage())
	patch := s.statusPatch("finish", s.workload, map[string]any{"conditions": conditions.list})
	patch.NoLivePods = s.noLivePods()
	s.forceLingering(true)
	return patch
}
