//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/harness"
)

const (
	suspend = `{"spec":{"suspend":true}}`
	resume  = `{"spec":{"suspend":false}}`
)

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	pauseAndResume(newScene(t, 2))
}

func pauseAndResume(s *scene) {
	j := harness.Job{Name: "job", Steps: 150}
	s.create(j)
	s.untilAttempt("job", 1)
	s.untilStep("job", 1, 20)
	s.patch("job", suspend)
	job := s.untilPhase("job", v1beta1.PhasePaused)
	s.holdsNothing(job)
	s.yielded(job, 1, v1beta1.CausePaused)

	s.patch("job", resume)
	job = s.succeeds(j)
	if job.Status.Attempt != 2 || job.Status.Preemptions != 0 {
		s.t.Errorf("want 2 attempts and no preemption, there were %d and %d", job.Status.Attempt, job.Status.Preemptions)
	}
	s.resumed(job, 2)
}

// A pause that is asked for while a preemption's drain goes on, and taken back
// before it ends, changes nothing: what follows is decided when the drain has ended.
func TestPauseDuringPreemptionUndone(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2)
	low := harness.Job{Name: "low", Steps: 120, Priority: harness.Low, Env: map[string]string{"FAULT_SLOW_SAVE_SECONDS": "5"}, Grace: 40 * time.Second}
	high := harness.Job{Name: "high", Steps: 20, Priority: harness.High}
	s.create(low)
	s.untilAttempt("low", 1)
	s.untilStep("low", 1, 20)
	before := s.workload("low")
	s.create(high)
	s.untilPhase("low", v1beta1.PhaseDraining)
	s.patch("low", suspend)
	s.until("low", "the pause is taken note of", func(j *v1beta1.ResumableTrainingJob) bool {
		return j.Status.ObservedGeneration == j.Generation && s.hasCause("low", v1beta1.CausePaused)
	})
	s.patch("low", resume)
	if job := s.job("low"); job.Status.Phase != v1beta1.PhaseDraining {
		t.Fatalf("the drain was over too soon for this test: %s", harness.Standing(job))
	}
	s.untilPhase("low", v1beta1.PhaseQueued)
	if after := s.workload("low"); after.UID != before.UID {
		t.Errorf("the Workload was made anew, and lost its place in the queue")
	}
	s.succeeds(high)
	job := s.succeeds(low)
	if job.Status.Attempt != 2 || job.Status.Preemptions != 1 {
		t.Errorf("want 2 attempts and 1 preemption, there were %d and %d", job.Status.Attempt, job.Status.Preemptions)
	}
	s.yielded(job, 1, v1beta1.CausePreempted)
	s.resumed(job, 2)
}

// hasCause reports whether the control document names a cause.
func (s *scene) hasCause(name string, cause v1beta1.YieldCause) bool {
	found, err := s.Kube.CoreV1().ConfigMaps(s.Name).Get(s.t.Context(), name+"-control", metav1.GetOptions{})
	if err != nil {
		return false
	}
	var document struct {
		Yield *struct {
			Cause   v1beta1.YieldCause
			History []struct{ Cause v1beta1.YieldCause }
		}
	}
	if json.Unmarshal([]byte(found.Data["control.json"]), &document) != nil || document.Yield == nil {
		return false
	}
	for _, later := range document.Yield.History {
		if later.Cause == cause {
			return true
		}
	}
	return document.Yield.Cause == cause
}

// A training script that hears nothing is stopped at the deadline, and goes on
// from its last periodic checkpoint.
func TestYieldNotAnsweredUntilDeadline(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2)
	j := harness.Job{
		Name: "deaf", Steps: 200, Interval: time.Second, Grace: 4 * time.Second, TerminationGrace: 2 * time.Second,
		Env: map[string]string{"FAULT_IGNORE_YIELD": "1"},
	}
	s.create(j)
	s.untilAttempt("deaf", 1)
	s.untilManifests("deaf", 2)
	s.patch("deaf", suspend)
	job := s.untilPhase("deaf", v1beta1.PhasePaused)
	s.holdsNothing(job)
	e := harness.Ledger(job, 1)
	if e == nil || e.Outcome != v1beta1.OutcomeYielded || e.YieldCause != v1beta1.CausePaused || e.AcknowledgedAt != nil {
		t.Errorf("want attempt 1 Yielded for Paused and never acknowledged: %+v", e)
	}
	if waited := e.StoppedAt.Sub(e.YieldAskedAt.Time); waited < 4*time.Second {
		t.Errorf("it was stopped after %s, before the deadline of 4 s", waited)
	}
	if e.CommittedStep == nil || *e.CommittedStep == 0 {
		t.Errorf("the periodic checkpoints are not in the account: %+v", e)
	}

	s.must(s.EditJob(t.Context(), "deaf", func(u *unstructured.Unstructured) { harness.SetEnv(u, "FAULT_IGNORE_YIELD", "") }))
	s.patch("deaf", resume)
	s.resumed(s.succeeds(j), 2)
}

// untilManifests waits until a run has some checkpoints.
func (s *scene) untilManifests(name string, count int) []harness.Manifest {
	s.t.Helper()
	job := s.job(name)
	var all []harness.Manifest
	s.must(harness.Until(s.t.Context(), patience, name+": checkpoints are committed", func(ctx context.Context) (bool, string, error) {
		var err error
		all, err = s.Manifests(ctx, job)
		return len(all) >= count, "too few", err
	}))
	return all
}
