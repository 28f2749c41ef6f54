//go:build e2e

package e2e

import (
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/harness"
)

// failurePolicy sets how often a job may fail, with a short back-off.
func failurePolicy(maxFailures int64) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedMap(u.Object, map[string]any{"maxFailures": maxFailures, "backoff": "1s"}, "spec", "failurePolicy")
	}
}

func TestWorkerCrashAndRetry(t *testing.T) {
	t.Parallel()
	crashAndRetry(newScene(t, 2))
}

func crashAndRetry(s *scene) {
	j := harness.Job{
		Name: "fragile", Steps: 120, Interval: time.Second, Edit: failurePolicy(1),
		Env: map[string]string{"FAULT_CRASH_AT_STEP": "70", "FAULT_ATTEMPT": "1", "FAULT_RANK": "1"},
	}
	s.create(j)
	job := s.succeeds(j)
	if job.Status.Attempt != 2 {
		s.t.Errorf("want 2 attempts, there were %d", job.Status.Attempt)
	}
	e := harness.Ledger(job, 1)
	if e == nil || e.Outcome != v1beta1.OutcomeFailed || e.YieldCause != "" {
		s.t.Errorf("want attempt 1 Failed and not asked to yield: %+v", e)
	}
	s.resumed(job, 2)
}

func TestCrashLoopWithoutProgressEndsFailed(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2)
	s.create(harness.Job{Name: "hopeless", Edit: failurePolicy(2), Env: map[string]string{"FAULT_CRASH_AT_STEP": "5"}})
	job := s.until("hopeless", "the end", func(j *v1beta1.ResumableTrainingJob) bool { return j.Status.Phase.Terminal() })
	ready := harness.Condition(job.Status.Conditions, v1beta1.ConditionReady)
	if job.Status.Phase != v1beta1.PhaseFailed || ready.Reason != v1beta1.ReasonFailureBudgetSpent {
		t.Errorf("want Failed/%s, is %s", v1beta1.ReasonFailureBudgetSpent, harness.Standing(job))
	}
	if harness.Condition(job.Status.Conditions, v1beta1.ConditionStalled).Status != metav1.ConditionTrue {
		t.Error("nothing goes on by itself, but Stalled is not True")
	}
	if job.Status.Attempt != 3 {
		t.Errorf("maxFailures 2 allows 3 attempts, there were %d", job.Status.Attempt)
	}
	s.quotaIsFree()
	s.holdsNothing(job)
}

// quotaIsFree waits until another job that needs all of the quota is admitted.
func (s *scene) quotaIsFree() {
	s.t.Helper()
	s.create(harness.Job{Name: "next", Steps: 10})
	s.untilAdmitted("next")
}

func (s *scene) untilAdmitted(name string) {
	s.t.Helper()
	s.until(name, "it is admitted", func(j *v1beta1.ResumableTrainingJob) bool { return j.Status.Attempt >= 1 })
}

// A pod that someone deletes ends the attempt, and that is no failure.
func TestPodDeleted(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2)
	j := harness.Job{Name: "job", Steps: 150, Edit: failurePolicy(0)}
	s.create(j)
	s.untilAttempt("job", 1)
	s.untilStep("job", 1, 20)
	pods, err := s.Pods(t.Context(), s.job("job"), 1)
	s.must(err)
	s.must(s.Kube.CoreV1().Pods(s.Name).Delete(t.Context(), pods[1].Name, metav1.DeleteOptions{}))
	job := s.succeeds(j)
	e := harness.Ledger(job, 1)
	if e == nil || e.Outcome != v1beta1.OutcomeDisrupted || job.Status.Attempt != 2 {
		t.Errorf("want attempt 1 Disrupted and 2 attempts, there were %d: %+v", job.Status.Attempt, e)
	}
	s.resumed(job, 2)
}

// A script that exits 0 when its pod is evicted completes its JobSet, and yet
// the training is not done.
func TestPodEvictedWhoseScriptExitsZero(t *testing.T) {
	t.Parallel()
	s := newScene(t, 1)
	j := harness.Job{
		Name: "polite", Pods: 1, Steps: 150, Interval: time.Second, Env: map[string]string{"FAULT_EXIT_ZERO_ON_SIGTERM": "1"},
		Edit: func(u *unstructured.Unstructured) {
			failurePolicy(3)(u)
			// Without rtj-run the script's own exit code is the container's.
			harness.SetCommand(u, "python", s.Trainer())
		},
	}
	s.create(j)
	s.untilAttempt("polite", 1)
	s.untilManifests("polite", 2)
	pods, err := s.Pods(t.Context(), s.job("polite"), 1)
	s.must(err)
	s.must(s.Kube.PolicyV1().Evictions(s.Name).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pods[0].Name, Namespace: s.Name}}))
	job := s.succeeds(j)
	e := harness.Ledger(job, 1)
	if e == nil || e.Outcome == v1beta1.OutcomeFinished || job.Status.Attempt != 2 {
		t.Errorf("want attempt 1 not Finished and 2 attempts, there were %d: %+v", job.Status.Attempt, e)
	}
	s.resumed(job, 2)
}

func TestJobSetDeletedByHand(t *testing.T) {
	t.Parallel()
	jobSetDeleted(newScene(t, 2))
}

func jobSetDeleted(s *scene) {
	j := harness.Job{Name: "job", Steps: 150, Interval: time.Second, Edit: failurePolicy(0)}
	s.create(j)
	s.untilAttempt("job", 1)
	s.untilManifests("job", 1)
	s.must(s.DeleteJobSet(s.t.Context(), "job-1"))
	job := s.succeeds(j)
	e := harness.Ledger(job, 1)
	if e == nil || e.Outcome != v1beta1.OutcomeDisrupted || job.Status.Attempt != 2 {
		s.t.Errorf("want attempt 1 Disrupted and 2 attempts, there were %d: %+v", job.Status.Attempt, e)
	}
	// Its pods leave after their Jobs are gone, with a last checkpoint.
	var last harness.Manifest
	for _, m := range s.untilManifests("job", 1) {
		if m.Attempt == 1 {
			last = m
		}
	}
	if from := harness.Ledger(job, 2).RestoredFrom; from != last.ID {
		s.t.Errorf("attempt 2 restored %s, the last checkpoint of attempt 1 is %s", from, last.ID)
	}
}
