package compose

import (
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// podsReady is what Kueue is told about pods; its timeouts count from it.
type podsReady struct{ status, reason, message string }

// podsReadyRules: PodsReady stays True while draining. Within an admission that
// was ready a relaunch is a recovery: Kueue's start timeout, which counts from
// the admission, would evict at once.
var podsReadyRules = []rule[*podsReady]{
	{name: "NoAdmission", when: func(s *situation) bool {
		return !s.workload.reserved() || !s.workload.admitted() || s.admissionGoes() || s.terminal() || s.deleting
	}, then: nothing[*podsReady]},
	{name: "Draining", when: func(s *situation) bool { return s.live() && s.yield != nil }, then: nothing[*podsReady]},
	{name: "Ready", when: func(s *situation) bool {
		return s.live() && s.claimed() && s.attempt.allReady() && !s.toldReady("True")
	}, then: (*situation).tellReady},
	{name: "Relaunch", when: func(s *situation) bool { return s.toldReady("True") && s.relaunches() }, then: func(*situation) *podsReady {
		return &podsReady{"False", kueue.WorkloadWaitForRecovery, "the pods of the next attempt are not ready yet"}
	}},
	{name: "Told", when: always, then: nothing[*podsReady]},
}

// relaunches: an attempt ended, and the next one is not ready yet.
func (s *situation) relaunches() bool {
	if s.ended() {
		return s.judged() && !s.endsHere()
	}
	entry := s.ledgerEntry(s.attempt.number)
	return entry == nil || entry.ReadyAt == nil
}

func (s *situation) toldReady(status string) bool {
	return s.workload.condition(kueue.WorkloadPodsReady).Status == status
}

func (s *situation) tellReady() *podsReady {
	if s.workload.condition(kueue.WorkloadPodsReady).Reason == kueue.WorkloadWaitForRecovery {
		return &podsReady{"True", kueue.WorkloadRecovered, "all pods are ready again"}
	}
	return &podsReady{"True", kueue.WorkloadStarted, "all pods are ready"}
}

func (s *situation) podsReadyPatch() *Patch {
	p := first(s, "pods-ready", podsReadyRules)
	if p == nil {
		return nil
	}
	conditions := newConditions(s, s.workload)
	conditions.set(kueue.WorkloadPodsReady, p.status, p.reason, p.message)
	return s.statusPatch("pods-ready", s.workload, map[string]any{"conditions": conditions.list})
}
