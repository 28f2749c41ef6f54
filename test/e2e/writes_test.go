//go:build e2e

package e2e

import (
	"context"
	"sync"
	"testing"
	"time"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/harness"
)

// maxCycleWrites is the budget of one preempt-and-resume cycle of one job, from
// the eviction to the first new step of the next attempt.
const maxCycleWrites = 16

// idleSpan is how long an idle job is watched.
const idleSpan = 70 * time.Second

func TestWritesOfOnePreemptAndResumeCycle(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2)
	low := harness.Job{Name: "low", Steps: 400, Priority: harness.Low}
	high := harness.Job{Name: "high", Steps: 40, Priority: harness.High}
	s.create(low)
	s.untilAttempt("low", 1)
	s.untilStep("low", 1, 40)
	changes := s.watchStatus("low")
	from := time.Now()
	s.create(high)
	s.untilAttempt("low", 2)
	s.untilStep("low", 2, 1)
	to := time.Now()
	job := s.succeeds(low)
	s.resumed(job, 2)

	writes, err := s.Writes(from, to)
	s.must(err)
	counted, statuses, changed := 0, 0, changes()
	for _, w := range writes {
		if !w.Of("low") || w.Apart() {
			continue
		}
		counted++
		t.Logf("%2d. %6.2f s  %s", counted, w.At.Sub(from).Seconds(), w)
		if w.Resource == v1beta1.Resource && w.Subresource == "status" && statuses < len(changed) {
			t.Logf("               %s", changed[statuses])
			statuses++
		}
	}
	t.Logf("%d writes, at most %d are allowed", counted, maxCycleWrites)
	if counted > maxCycleWrites {
		t.Errorf("%d writes", counted)
	}
}

func TestNoWritesWhileIdle(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2)
	s.create(harness.Job{Name: "running", Steps: 100000})
	s.untilAttempt("running", 1)
	s.untilStep("running", 1, 20)
	s.create(harness.Job{Name: "queued", Steps: 10})
	s.untilPhase("queued", v1beta1.PhaseQueued)
	s.settle("running", "queued")

	from := time.Now()
	time.Sleep(idleSpan)
	writes, err := s.Writes(from, time.Now())
	s.must(err)
	progress := 0
	for _, w := range writes {
		if w.Resource == v1beta1.Resource && w.Subresource == "status" && w.Name == "running" {
			progress++
			continue
		}
		t.Errorf("a write while idle, after %.1f s: %s", w.At.Sub(from).Seconds(), w)
	}
	if progress > 2 {
		t.Errorf("progress was written %d times in %s", progress, idleSpan)
	}
}

// watchStatus collects what each write of a job's status changes, until the
// returned function is called.
func (s *scene) watchStatus(name string) func() []string {
	ctx, stop := context.WithCancel(s.t.Context())
	var watching sync.WaitGroup
	var changes []string
	last := s.job(name)
	watching.Go(func() {
		s.WatchJobs(ctx, func(j *v1beta1.ResumableTrainingJob) {
			if j.Name != name {
				return
			}
			if change := harness.StatusChange(last, j); change != "" {
				changes = append(changes, change)
			}
			last = j
		})
	})
	return func() []string {
		stop()
		watching.Wait()
		return changes
	}
}

// settle waits until nothing was written about jobs for some seconds.
func (s *scene) settle(jobs ...string) {
	s.t.Helper()
	const calm = 3 * time.Second
	s.must(harness.Until(s.t.Context(), patience, "nothing is written any more", func(context.Context) (bool, string, error) {
		writes, err := s.Writes(time.Now().Add(-calm), time.Now())
		for _, w := range writes {
			for _, job := range jobs {
				if w.Of(job) {
					return false, w.String(), nil
				}
			}
		}
		return true, "", err
	}))
}
