//go:build e2e

package e2e

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/harness"
)

func TestKueueDeactivatesTheWorkload(t *testing.T) {
	t.Parallel()
	deactivation(newScene(t, 2))
}

func deactivation(s *scene) {
	j := harness.Job{Name: "job", Steps: 150}
	s.create(j)
	s.untilAttempt("job", 1)
	s.untilStep("job", 1, 20)
	before := s.workload("job")
	s.must(s.PatchWorkload(s.t.Context(), before.Name, `{"spec":{"active":false}}`))
	job := s.until("job", "queued and stalled", func(j *v1beta1.ResumableTrainingJob) bool {
		stalled := harness.Condition(j.Status.Conditions, v1beta1.ConditionStalled)
		return j.Status.Phase == v1beta1.PhaseQueued && stalled.Status == metav1.ConditionTrue && stalled.Reason == v1beta1.ReasonDeactivated
	})
	s.holdsNothing(job)
	s.yielded(job, 1, v1beta1.CauseDeactivated)
	s.settle("job")
	if after := s.workload("job"); after.UID != before.UID || after.Spec.Active == nil || *after.Spec.Active {
		s.t.Error("the Workload was made anew or activated, which is not for RTJ to do")
	}

	s.must(s.PatchWorkload(s.t.Context(), before.Name, `{"spec":{"active":true}}`))
	s.resumed(s.succeeds(j), 2)
}

func TestWorkloadDeletedUnderRunningAttempt(t *testing.T) {
	t.Parallel()
	workloadDeleted(newScene(t, 2))
}

func workloadDeleted(s *scene) {
	j := harness.Job{Name: "job", Steps: 150}
	s.create(j)
	s.untilAttempt("job", 1)
	s.untilStep("job", 1, 20)
	before := s.workload("job")
	s.must(s.DeleteWorkload(s.t.Context(), before.Name))
	job := s.succeeds(j)
	if after := s.workload("job"); after.UID == before.UID {
		s.t.Error("it is the same Workload")
	}
	s.yielded(job, 1, v1beta1.CauseAdmissionLost)
	s.resumed(job, 2)
}
