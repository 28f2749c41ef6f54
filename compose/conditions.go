package compose

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"rtj.dev/rtj/api/v1beta1"
)

// summarize derives every condition, in this one place, from the standing and
// what was decided. They follow kstatus and are set False with a reason, never
// removed.
func (s *situation) summarize(now standing) {
	settled := now.phase == v1beta1.PhaseRunning || now.phase == v1beta1.PhasePaused || now.phase.Terminal() || now.stalled
	ready := now.phase == v1beta1.PhaseRunning || now.phase == v1beta1.PhaseSucceeded

	s.condition(v1beta1.ConditionReady, ready, now.reason, now.message)
	if settled {
		s.condition(v1beta1.ConditionReconciling, false, v1beta1.ReasonSettled, "")
	} else {
		s.condition(v1beta1.ConditionReconciling, true, now.reason, now.message)
	}
	if now.stalled {
		s.condition(v1beta1.ConditionStalled, true, now.reason, now.message)
	} else {
		s.condition(v1beta1.ConditionStalled, false, v1beta1.ReasonAsExpected, "")
	}
	s.quotaCondition()
	s.yieldCondition()
	s.checkpointConditions(now)
	s.templateConditions(now)
	slices.SortFunc(s.next.Conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
}

func (s *situation) quotaCondition() {
	switch {
	case s.workload == nil:
		s.condition(v1beta1.ConditionQuotaReserved, false, v1beta1.ReasonNoWorkload, "")
	case s.workload.reserved():
		s.condition(v1beta1.ConditionQuotaReserved, true, v1beta1.ReasonQuotaReserved, "by Workload "+s.workload.Meta.Name)
	case s.workload.finished():
		s.condition(v1beta1.ConditionQuotaReserved, false, v1beta1.ReasonFinished, "by Workload "+s.workload.Meta.Name)
	default:
		// Kueue's own reason, where it gave one. Its message changes with every try to
		// schedule; it is not mirrored, since each change would be a write.
		reason := s.workload.condition(kueue.WorkloadQuotaReserved).Reason
		if !isReason(reason) {
			reason = v1beta1.ReasonWaitingForQuota
		}
		s.condition(v1beta1.ConditionQuotaReserved, false, reason, "Kueue's words stand in Workload "+s.workload.Meta.Name)
	}
}

func (s *situation) yieldCondition() {
	if s.live() && s.yield != nil {
		s.condition(v1beta1.ConditionYielding, true, string(s.yield.cause), s.yield.forPeople())
		return
	}
	s.condition(v1beta1.ConditionYielding, false, v1beta1.ReasonNotYielding, "")
}

func (s *situation) checkpointConditions(now standing) {
	if s.Catalog != nil && !s.Catalog.ListedAt.IsZero() {
		if f := s.Catalog.Failure; f != nil {
			s.condition(v1beta1.ConditionStoreReachable, false, string(f.Kind), f.Message)
		} else {
			s.condition(v1beta1.ConditionStoreReachable, true, v1beta1.ReasonCatalogRead, "")
		}
	} else if !s.has(v1beta1.ConditionStoreReachable) {
		s.condition(v1beta1.ConditionStoreReachable, false, v1beta1.ReasonCatalogNotRead, "")
	}
	if latest := s.next.Checkpoint.Latest; latest != nil {
		s.condition(v1beta1.ConditionCheckpointReady, true, v1beta1.ReasonCheckpointComplete, "")
	} else {
		s.condition(v1beta1.ConditionCheckpointReady, false, v1beta1.ReasonNoCheckpoint, "")
	}
	if now.reason == v1beta1.ReasonNoCompatibleCheckpoint {
		s.condition(v1beta1.ConditionNoCompatibleCheckpoint, true, now.reason, now.message)
	} else {
		s.condition(v1beta1.ConditionNoCompatibleCheckpoint, false, v1beta1.ReasonAsExpected, "")
	}
}

func (s *situation) templateConditions(now standing) {
	if s.live() && !s.templateCurrent(s.attempt.jobset) {
		s.condition(v1beta1.ConditionTemplateOutdated, true, v1beta1.ReasonTemplateChanged, "the template was edited after this attempt started; the edit applies to the next one")
	} else {
		s.condition(v1beta1.ConditionTemplateOutdated, false, v1beta1.ReasonTemplateCurrent, "")
	}
	if now.reason == v1beta1.ReasonLaunchRefused {
		s.condition(v1beta1.ConditionLaunchRefused, true, now.reason, now.message)
	} else {
		s.condition(v1beta1.ConditionLaunchRefused, false, v1beta1.ReasonAsExpected, "")
	}
}

func (s *situation) has(kind string) bool {
	return slices.ContainsFunc(s.next.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
}

// condition sets one condition; its transition time moves only with its status.
func (s *situation) condition(kind string, value bool, reason, message string) {
	status := metav1.ConditionFalse
	if value {
		status = metav1.ConditionTrue
	}
	now := metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: clip(message, 1024),
		ObservedGeneration: s.Parent.Generation, LastTransitionTime: wholeSeconds(s.Now),
	}
	for i := range s.next.Conditions {
		if old := &s.next.Conditions[i]; old.Type == kind {
			if old.Status == status {
				now.LastTransitionTime = old.LastTransitionTime
			}
			*old = now
			return
		}
	}
	s.next.Conditions = append(s.next.Conditions, now)
}

// readyReason is the reason of the Ready condition as observed.
func (s *situation) readyReason() string {
	for _, c := range s.was.Conditions {
		if c.Type == v1beta1.ConditionReady {
			return c.Reason
		}
	}
	return ""
}

// readyMessage is the message of the Ready condition as observed.
func (s *situation) readyMessage() string {
	for _, c := range s.was.Conditions {
		if c.Type == v1beta1.ConditionReady {
			return c.Message
		}
	}
	return ""
}
