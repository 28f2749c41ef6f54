//go:build e2e

package e2e

import (
	"context"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/harness"
)

// These tests stop the runner, which all jobs share, so they run alone.

// finalizer is the same with both runners, so that each lets go of what the other
// holds.
const finalizer = "metacontroller.io/compositecontroller-rtj"

// bothRunners returns the runner of the suites and the other one, and starts the
// first again when the test ends.
func bothRunners(t *testing.T) (harness.Runner, harness.Runner) {
	t.Helper()
	if metacontroller == nil {
		t.Skip("needs both runners; give METACONTROLLER=PATH, a metacontroller 4.17 binary")
	}
	var other harness.Runner = metacontroller
	if runner == other {
		other = embedded
	}
	t.Cleanup(func() {
		if err := other.Stop(); err != nil {
			t.Error(err)
		}
		if err := runner.Start(context.Background(), harness.Endpoint{}); err != nil {
			t.Error(err)
		}
	})
	return runner, other
}

// handOver stops one runner and then starts the other.
func (s *scene) handOver(from, to harness.Runner) {
	s.t.Helper()
	s.must(from.Stop())
	s.must(to.Start(s.t.Context(), harness.Endpoint{}))
}

// A job is handed from one runner to the other while it trains, back while it
// drains, and once more while its next attempt trains.
func TestRunnerSwitchedUnderAJob(t *testing.T) {
	first, second := bothRunners(t)
	s := newScene(t, 2)
	runtimes := s.WatchRuntimes(t.Context())
	j := harness.Job{
		Name: "job", Steps: 400, Grace: 40 * time.Second,
		// The drain lasts long enough for a hand-over.
		Env: map[string]string{"FAULT_SLOW_SAVE_SECONDS": "8"},
	}
	s.create(j)
	s.untilAttempt("job", 1)
	s.untilStep("job", 1, 20)
	held := s.job("job")
	set := s.jobSetUID(held, "job-1")

	s.handOver(first, second)
	s.keeps(held, set)
	s.patch("job", suspend)
	s.untilPhase("job", v1beta1.PhaseDraining)
	s.handOver(second, first)
	if job := s.job("job"); job.Status.Phase != v1beta1.PhaseDraining {
		t.Logf("the drain was over before the hand-over: %s", harness.Standing(job))
	}
	job := s.untilPhase("job", v1beta1.PhasePaused)
	s.holdsNothing(job)
	s.yielded(job, 1, v1beta1.CausePaused)

	s.must(s.EditJob(t.Context(), "job", func(u *unstructured.Unstructured) { harness.SetEnv(u, "FAULT_SLOW_SAVE_SECONDS", "0") }))
	s.patch("job", resume)
	s.untilAttempt("job", 2)
	s.handOver(first, second)
	job = s.succeeds(j)
	if job.Status.Attempt != 2 || len(job.Status.Ledger) != 2 {
		t.Errorf("want 2 attempts, there were %d: %+v", job.Status.Attempt, job.Status.Ledger)
	}
	s.resumed(job, 2)
	for _, moment := range runtimes() {
		t.Error("two attempts may have run at once:", moment)
	}
}

// keeps checks that a job which trains is left alone by a runner that takes it
// over: same attempt, same JobSet, same finalizer, no stop.
func (s *scene) keeps(before *v1beta1.ResumableTrainingJob, jobSet string) {
	s.t.Helper()
	if !slices.Contains(before.Finalizers, finalizer) {
		s.t.Errorf("the job does not carry the finalizer: %v", before.Finalizers)
	}
	// Long enough for everything to be synced.
	s.settle(before.Name)
	after := s.job(before.Name)
	if !slices.Equal(after.Finalizers, before.Finalizers) {
		s.t.Errorf("finalizers were %v and are %v", before.Finalizers, after.Finalizers)
	}
	if after.Status.Phase != v1beta1.PhaseRunning || after.Status.Attempt != before.Status.Attempt {
		s.t.Errorf("attempt %d was Running, now it is %s", before.Status.Attempt, harness.Standing(after))
	}
	if uid := s.jobSetUID(after, before.Name+"-1"); uid != jobSet {
		s.t.Error("the JobSet was made anew")
	}
}

func (s *scene) jobSetUID(job *v1beta1.ResumableTrainingJob, name string) string {
	s.t.Helper()
	sets, err := s.JobSets(s.t.Context(), job)
	s.must(err)
	for _, set := range sets {
		if set.Name == name {
			return string(set.UID)
		}
	}
	s.t.Fatalf("JobSet %s is not there", name)
	return ""
}

// A job that was begun under one runner and is deleted under the other checkpoints
// and goes: the finalizer is one that both remove.
func TestRunnerSwitchedBeforeDeletion(t *testing.T) {
	first, second := bothRunners(t)
	s := newScene(t, 2)
	s.create(harness.Job{Name: "job", Steps: 1000})
	s.untilAttempt("job", 1)
	s.untilStep("job", 1, 20)
	job := s.job("job")
	s.must(first.Stop())
	s.must(s.DeleteJob(t.Context(), "job"))
	s.must(second.Start(t.Context(), harness.Endpoint{}))
	s.untilGone(job)
}

// Both runners at once, as when one is started before the other has ended, do the
// work twice and nothing worse.
func TestBothRunnersAtOnce(t *testing.T) {
	_, second := bothRunners(t)
	s := newScene(t, 2)
	s.must(second.Start(t.Context(), harness.Endpoint{}))
	runtimes := s.WatchRuntimes(t.Context())
	preemptAndResume(s)
	for _, moment := range runtimes() {
		t.Error("two attempts may have run at once:", moment)
	}
	// Nor do they go on to write what the other has written.
	s.create(harness.Job{Name: "idle", Steps: 10, Edit: func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, true, "spec", "suspend")
	}})
	s.until("idle", "it is paused", func(j *v1beta1.ResumableTrainingJob) bool {
		return j.Status.Phase == v1beta1.PhasePaused && harness.Condition(j.Status.Conditions, v1beta1.ConditionReady).Status == metav1.ConditionFalse
	})
	s.quiet("idle")
}
