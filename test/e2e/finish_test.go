//go:build e2e

package e2e

import (
	"testing"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/harness"
)

func TestFinishUninterrupted(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2)
	j := harness.Job{Name: "calm", Steps: 60}
	s.create(j)
	job := s.succeeds(j)
	if job.Status.Attempt != 1 {
		t.Errorf("want one attempt, there were %d", job.Status.Attempt)
	}
	if got := harness.Condition(job.Status.Conditions, v1beta1.ConditionReady); got.Status != "True" || got.Reason != v1beta1.ReasonFinished {
		t.Errorf("Ready is %s/%s", got.Status, got.Reason)
	}
}
