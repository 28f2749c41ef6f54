//go:build e2e

package e2e

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/harness"
)

// patience is how long one thing may take on a busy machine, longer where pods
// are real containers. Nothing is asserted about it.
var patience = 90 * time.Second

// scene is a namespace with a queue in which one test plays.
type scene struct {
	*harness.Namespace
	t *testing.T
	// stepTime of jobs that set none.
	stepTime time.Duration
}

// stepTime is how long a step takes, so that a job still trains when the runner has
// heard of what happened to it. Loss curves do not depend on it.
func stepTime() time.Duration {
	if runner == embedded {
		return 50 * time.Millisecond
	}
	// Metacontroller reads live before it writes, and writes more.
	return 120 * time.Millisecond
}

var camel = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// newScene makes a namespace with a quota of GPUs. When the test ends it goes;
// when the test failed it is described first.
func newScene(t *testing.T, gpus int) *scene {
	return newSceneIn(t, harness.QueueOptions{GPUs: gpus, Pool: sharedPool})
}

func newSceneIn(t *testing.T, o harness.QueueOptions) *scene {
	t.Helper()
	name := strings.ToLower(camel.ReplaceAllString(strings.TrimPrefix(t.Name(), "Test"), "$1-$2"))
	name = strings.ReplaceAll(name, "/", "-")
	if len(name) > 45 {
		name = name[:45]
	}
	n, err := world.NewNamespace(t.Context(), strings.Trim(name, "-")+"-"+run, o)
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{Namespace: n, t: t, stepTime: stepTime()}
	t.Cleanup(s.end)
	return s
}

func (s *scene) end() {
	// The test's own context has ended.
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	if s.t.Failed() {
		s.t.Logf("what there is to see:\n%s", s.Report(ctx))
		if os.Getenv(envKeep) != "" {
			return
		}
	}
	if err := s.Delete(ctx); err != nil {
		s.t.Error(err)
		return
	}
	if err := harness.Until(ctx, 2*patience, "namespace "+s.Name+" is gone", s.Gone); err != nil {
		s.t.Error(err)
	}
}

// must ends the test on an error.
func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) create(j harness.Job) {
	s.t.Helper()
	if j.StepTime == 0 {
		j.StepTime = s.stepTime
	}
	s.must(s.Create(s.t.Context(), j))
}

func (s *scene) patch(job, patch string) {
	s.t.Helper()
	s.must(s.PatchJob(s.t.Context(), job, patch))
}

func (s *scene) job(name string) *v1beta1.ResumableTrainingJob {
	s.t.Helper()
	j, err := s.Job(s.t.Context(), name)
	s.must(err)
	return j
}

// until waits for something to be so of a job.
func (s *scene) until(name, what string, so func(*v1beta1.ResumableTrainingJob) bool) *v1beta1.ResumableTrainingJob {
	s.t.Helper()
	return s.untilLong(patience, name, what, so)
}

func (s *scene) untilLong(limit time.Duration, name, what string, so func(*v1beta1.ResumableTrainingJob) bool) *v1beta1.ResumableTrainingJob {
	s.t.Helper()
	j, err := s.UntilJob(s.t.Context(), name, limit, what, so)
	s.must(err)
	return j
}

// untilPhase waits for a phase, and fails at once in a terminal one that is another.
func (s *scene) untilPhase(name string, phase v1beta1.Phase) *v1beta1.ResumableTrainingJob {
	s.t.Helper()
	j := s.until(name, "phase "+string(phase), harness.InPhase(phase, v1beta1.PhaseSucceeded, v1beta1.PhaseFailed))
	if j.Status.Phase != phase {
		s.t.Fatalf("%s: want phase %s, is %s", name, phase, harness.Standing(j))
	}
	return j
}

// untilAttempt waits until an attempt or a later one trains.
func (s *scene) untilAttempt(name string, attempt int32) *v1beta1.ResumableTrainingJob {
	s.t.Helper()
	j := s.until(name, "attempt trains", func(j *v1beta1.ResumableTrainingJob) bool {
		return j.Status.Phase.Terminal() || j.Status.Phase == v1beta1.PhaseRunning && j.Status.Attempt >= attempt
	})
	if j.Status.Phase.Terminal() {
		s.t.Fatalf("%s: attempt %d does not train: %s", name, attempt, harness.Standing(j))
	}
	return j
}

// untilStep waits until an attempt's workers report a step.
func (s *scene) untilStep(name string, attempt int32, step int64) {
	s.t.Helper()
	job := s.job(name)
	s.must(harness.Until(s.t.Context(), patience, name+": a step is made", func(ctx context.Context) (bool, string, error) {
		p, err := s.Progress(ctx, job, attempt)
		if err != nil || p == nil {
			return false, "no progress is reported", err
		}
		return p.Step >= step, p.Activity, nil
	}))
}

// succeeds waits for Succeeded and compares the loss curve with that of an
// uninterrupted run.
func (s *scene) succeeds(j harness.Job) *v1beta1.ResumableTrainingJob {
	s.t.Helper()
	job := s.untilLong(2*patience, j.Name, "the end", func(j *v1beta1.ResumableTrainingJob) bool { return j.Status.Phase.Terminal() })
	if job.Status.Phase != v1beta1.PhaseSucceeded {
		s.t.Fatalf("%s: want Succeeded, is %s", j.Name, harness.Standing(job))
	}
	want, err := harness.Reference(s.t.Context(), s.Options.Root, j)
	s.must(err)
	got, err := s.Curve(s.t.Context(), job)
	s.must(err)
	if err := harness.SameCurve(want, got); err != nil {
		s.t.Errorf("%s: %v", j.Name, err)
	}
	return job
}

// yielded checks that an attempt was asked to end for a cause, committed, and
// lost no step.
func (s *scene) yielded(job *v1beta1.ResumableTrainingJob, attempt int32, cause v1beta1.YieldCause) {
	s.t.Helper()
	e := harness.Ledger(job, attempt)
	switch {
	case e == nil:
		s.t.Errorf("%s: attempt %d is not in the ledger", job.Name, attempt)
	case e.YieldCause != cause || e.Outcome != v1beta1.OutcomeYielded:
		s.t.Errorf("%s: attempt %d: want %s for %s, it is %s for %s", job.Name, attempt, v1beta1.OutcomeYielded, cause, e.Outcome, e.YieldCause)
	case e.AcknowledgedAt == nil || e.CommittedStep == nil || e.LostSteps == nil || e.StoppedAt == nil:
		s.t.Errorf("%s: the account of attempt %d is incomplete: %+v", job.Name, attempt, *e)
	case *e.LostSteps != 0:
		s.t.Errorf("%s: attempt %d lost %d steps", job.Name, attempt, *e.LostSteps)
	}
}

// resumed checks that an attempt went on exactly where the one before committed
// last, by the account in status and by the workers' own record.
func (s *scene) resumed(job *v1beta1.ResumableTrainingJob, attempt int32) {
	s.t.Helper()
	before, e := harness.Ledger(job, attempt-1), harness.Ledger(job, attempt)
	if before == nil || e == nil || before.CommittedStep == nil {
		s.t.Errorf("%s: the ledger lacks attempts %d and %d", job.Name, attempt-1, attempt)
		return
	}
	if e.RestoredFrom == "" || e.RestoredStep != *before.CommittedStep {
		s.t.Errorf("%s: attempt %d restored step %d (%s), attempt %d committed %d", job.Name, attempt, e.RestoredStep, e.RestoredFrom, attempt-1, *before.CommittedStep)
	}
	start, err := s.Started(s.t.Context(), job, attempt)
	s.must(err)
	if start == nil || start.Restore == nil || start.Restore.Checkpoint != e.RestoredFrom || start.Restore.Step != e.RestoredStep {
		s.t.Errorf("%s: attempt %d was to restore %s, its start record says %+v", job.Name, attempt, e.RestoredFrom, start)
	}
}

// workload is the job's only one.
func (s *scene) workload(name string) *kueue.Workload {
	s.t.Helper()
	w, err := s.Workload(s.t.Context(), s.job(name))
	s.must(err)
	if w == nil {
		s.t.Fatalf("%s has no Workload", name)
	}
	return w
}

// holdsNothing checks that no pod of the job may run and no quota is held.
func (s *scene) holdsNothing(job *v1beta1.ResumableTrainingJob) {
	s.t.Helper()
	pods, err := s.LivePods(s.t.Context(), job)
	s.must(err)
	for _, p := range pods {
		s.t.Errorf("%s: pod %s is %s", job.Name, p.Name, p.Status.Phase)
	}
	all, err := s.Workloads(s.t.Context(), job)
	s.must(err)
	for _, w := range all {
		if harness.Reserved(&w) && harness.Condition(w.Status.Conditions, kueue.WorkloadFinished).Status != "True" {
			s.t.Errorf("%s: Workload %s holds quota", job.Name, w.Name)
		}
	}
}
