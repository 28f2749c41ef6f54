//go:build e2e

package e2e

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/harness"
)

// A job that is deleted while it runs checkpoints, gives its quota back, and
// then goes with everything but its checkpoints.
func TestDeletionWhileRunning(t *testing.T) {
	t.Parallel()
	deletionWhileRunning(newScene(t, 2))
}

func deletionWhileRunning(s *scene) {
	s.create(harness.Job{Name: "job", Steps: 1000})
	s.untilAttempt("job", 1)
	s.untilStep("job", 1, 20)
	job := s.job("job")
	s.must(s.DeleteJob(s.t.Context(), "job"))
	s.untilGone(job)
	s.quotaIsFree()
}

// untilGone waits until a job that was deleted is gone with its children, and
// checks that it checkpointed first and holds nothing.
func (s *scene) untilGone(job *v1beta1.ResumableTrainingJob) {
	s.t.Helper()
	s.must(harness.Until(s.t.Context(), patience, "the job is gone", func(ctx context.Context) (bool, string, error) {
		left, err := s.Job(ctx, job.Name)
		if apierrors.IsNotFound(err) {
			return true, "", nil
		}
		if err != nil {
			return false, "", err
		}
		return false, harness.Standing(left), nil
	}))
	s.holdsNothing(job)
	result, err := s.Result(s.t.Context(), job, 1)
	s.must(err)
	if result == nil || result.Outcome != "yielded" || result.LostSteps != 0 {
		s.t.Errorf("want the workers to have yielded without a lost step, their record is %+v", result)
	}
	all, err := s.Manifests(s.t.Context(), job)
	s.must(err)
	if len(all) == 0 {
		s.t.Error("there is no checkpoint")
	}
	s.must(harness.Until(s.t.Context(), patience, "its children are gone", func(ctx context.Context) (bool, string, error) {
		sets, err := s.JobSets(ctx, job)
		if err != nil {
			return false, "", err
		}
		workloads, err := s.Workloads(ctx, job)
		return len(sets)+len(workloads) == 0, "JobSets or Workloads are left", err
	}))
}

// A namespace that is deleted under a running job goes, whatever order its
// objects are deleted in.
func TestNamespaceDeletionWhileRunning(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2)
	s.create(harness.Job{Name: "job", Steps: 1000})
	s.untilAttempt("job", 1)
	s.untilStep("job", 1, 10)
	s.must(s.Delete(t.Context()))
	s.must(harness.Until(t.Context(), 2*patience, "the namespace is gone", s.Gone))
}
