//go:build e2e

package e2e

import (
	"testing"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/harness"
)

func TestPreemptAndResume(t *testing.T) {
	t.Parallel()
	preemptAndResume(newScene(t, 2))
}

func preemptAndResume(s *scene) {
	low := harness.Job{Name: "low", Steps: 200, Priority: harness.Low}
	high := harness.Job{Name: "high", Steps: 40, Priority: harness.High, Seed: 2}
	s.create(low)
	s.untilStep("low", 1, 20)
	s.create(high)
	s.untilAttempt("high", 1)

	job := s.job("low")
	if job.Status.Phase != v1beta1.PhaseQueued {
		s.t.Errorf("low waits for quota, but is %s", harness.Standing(job))
	}
	s.succeeds(high)
	job = s.succeeds(low)
	if job.Status.Attempt != 2 || job.Status.Preemptions != 1 {
		s.t.Errorf("want 2 attempts and 1 preemption, there were %d and %d", job.Status.Attempt, job.Status.Preemptions)
	}
	s.yielded(job, 1, v1beta1.CausePreempted)
	s.resumed(job, 2)
}
