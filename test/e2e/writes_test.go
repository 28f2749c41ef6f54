//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/figures"
	"rtj.dev/rtj/test/harness"
)

// maxCycleWrites is the budget of one preempt-and-resume cycle of one job, from
// the eviction to the first new step of the next attempt. Metacontroller's writes
// are its own affair; of the hooks there are the notice, its repetition while it
// is not acknowledged (1 s and 5 s later), the release of quota, the claim, and
// PodsReady.
func maxCycleWrites() int {
	if runner == embedded {
		return 16
	}
	return 6
}

// idleSpan is how long an idle job is watched.
const idleSpan = 70 * time.Second

// It runs alone: what is late on a busy machine is asked for again.
func TestAPIWritesOfOnePreemptAndResumeCycle(t *testing.T) {
	s := newScene(t, 2)
	low := harness.Job{Name: "low", Steps: 400, Priority: harness.Low}
	high := harness.Job{Name: "high", Steps: 40, Priority: harness.High}
	s.create(low)
	s.untilAttempt("low", 1)
	s.untilStep("low", 1, 40)
	changes, cycle := s.watchStatus("low"), s.watchCycle("low-w1")
	from := time.Now()
	s.create(high)
	s.untilAttempt("low", 2)
	job := s.succeeds(low)
	s.resumed(job, 2)
	moments, err := cycle().Moments(t.Context(), s.Namespace, job)
	s.must(err)

	writes, err := s.Writes(from, moments.FirstStep)
	s.must(err)
	counted, apart, statuses, changed := 0, 0, 0, changes()
	for _, w := range writes {
		switch {
		case !w.Of("low") && !strings.HasPrefix(w.Name, "low."): // as events are named
			continue
		case w.Apart():
			apart++
			continue
		}
		counted++
		fmt.Printf("write: %2d. %6.2f s  %s\n", counted, w.At.Sub(from).Seconds(), w)
		if w.Resource == v1beta1.Resource && w.Subresource == "status" && statuses < len(changed) {
			t.Logf("%d. changes %s", counted, changed[statuses])
			statuses++
		}
	}
	figures.Print("API writes of one preempt-and-resume cycle", "one job, 2 pods", float64(counted), "writes")
	figures.Print("events of one preempt-and-resume cycle, counted apart", "one job, 2 pods", float64(apart), "writes")
	figures.Print("eviction to workers knowing", "one job, 2 pods", max(moments.Knew.Sub(moments.Evicted).Seconds(), 0), "s")
	if most := maxCycleWrites(); counted > most {
		t.Errorf("%d writes, at most %d are allowed", counted, most)
	}
}

func TestAPIWritesWhenIdle(t *testing.T) {
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
	progress, others := 0, 0
	for _, w := range writes {
		if w.Resource == v1beta1.Resource && w.Subresource == "status" && w.Name == "running" {
			progress++
			continue
		}
		others++
		t.Errorf("a write while idle, after %.1f s: %s", w.At.Sub(from).Seconds(), w)
	}
	figures.Print("API writes when idle", "one running and one queued job, "+idleSpan.String(), float64(others), "writes")
	if progress > 2 {
		t.Errorf("progress was written %d times in %s", progress, idleSpan)
	}
}

// watchCycle watches a Workload until the returned function is called.
func (s *scene) watchCycle(workload string) func() *harness.Cycle {
	ctx, stop := context.WithCancel(s.t.Context())
	var watching sync.WaitGroup
	cycle := &harness.Cycle{}
	watching.Go(func() {
		s.WatchWorkloads(ctx, func(w *kueue.Workload) {
			if w.Name == workload {
				cycle.Seen(w)
			}
		})
	})
	return func() *harness.Cycle {
		stop()
		watching.Wait()
		return cycle
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
		writes, err := s.AllWrites(time.Now().Add(-calm), time.Now())
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
