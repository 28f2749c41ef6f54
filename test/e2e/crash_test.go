//go:build e2e

package e2e

import (
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/harness"
)

// These tests kill the runner, which all jobs share, so they run alone: the
// operator, or the hooks and Metacontroller at once.

// untilKilled waits until the runner has died at the write at which it was to.
func (s *scene) untilKilled(toll *harness.Toll) {
	s.t.Helper()
	select {
	case <-toll.Killed():
	case <-time.After(patience):
		s.t.Fatal("the write at which the runner was to die did not come")
	}
}

func newToll(t *testing.T) *harness.Toll {
	t.Helper()
	toll, err := world.NewToll(t.Context(), runner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := toll.Leave(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return toll
}

func isClaim(r harness.Request) bool {
	return r.Is(http.MethodPatch, "/workloads/job-w1") && strings.Contains(r.Body, v1beta1.AnnotationClaim)
}

// Between the claim of an attempt and its start: the claim is used again, and
// there is no second attempt.
func TestRunnerKilledBetweenClaimAndStart(t *testing.T) {
	toll := newToll(t)
	s := newScene(t, 2)
	toll.Judge(func(r harness.Request) harness.Verdict {
		if isClaim(r) {
			return harness.KillAfter
		}
		return harness.Pass
	})
	j := harness.Job{Name: "job", Steps: 40}
	s.create(j)
	s.untilKilled(toll)
	if w := s.workload("job"); w.Annotations[v1beta1.AnnotationClaim] == "" {
		t.Fatal("the claim did not land")
	}
	s.must(toll.Leave(t.Context()))
	job := s.succeeds(j)
	if job.Status.Attempt != 1 || len(job.Status.Ledger) != 1 {
		t.Errorf("want one attempt, there were %d: %+v", job.Status.Attempt, job.Status.Ledger)
	}
}

// In the middle of a drain: the workers have the notice and leave by themselves;
// the runner finds them gone.
func TestRunnerKilledInTheMiddleOfADrain(t *testing.T) {
	toll := newToll(t)
	s := newScene(t, 2)
	low := harness.Job{Name: "low", Steps: 150, Priority: harness.Low}
	high := harness.Job{Name: "high", Steps: 20, Priority: harness.High}
	s.create(low)
	s.untilAttempt("low", 1)
	s.untilStep("low", 1, 20)
	job := s.job("low")
	toll.Judge(func(r harness.Request) harness.Verdict {
		if r.Method == http.MethodPatch && strings.Contains(r.Path, "/pods/low-1-") && strings.Contains(r.Body, v1beta1.AnnotationYield) {
			return harness.KillAfter
		}
		return harness.Pass
	})
	s.create(high)
	s.untilKilled(toll)
	s.must(harness.Until(t.Context(), patience, "the workers leave without a runner", func(ctx context.Context) (bool, string, error) {
		pods, err := s.LivePods(ctx, job)
		return len(pods) == 0, "pods are left", err
	}))
	if !harness.Reserved(s.workload("low")) {
		t.Error("somebody else gave the quota back")
	}
	s.must(toll.Leave(t.Context()))
	s.succeeds(high)
	job = s.succeeds(low)
	if job.Status.Attempt != 2 || job.Status.Preemptions != 1 {
		t.Errorf("want 2 attempts and 1 preemption, there were %d and %d", job.Status.Attempt, job.Status.Preemptions)
	}
	s.yielded(job, 1, v1beta1.CausePreempted)
	s.resumed(job, 2)
}

// Between the deletion of the drained JobSet and the release of the quota: it is
// still released, and by the same Workload.
func TestRunnerKilledBetweenJobSetDeletionAndRelease(t *testing.T) {
	toll := newToll(t)
	s := newScene(t, 2)
	low := harness.Job{Name: "low", Steps: 150, Priority: harness.Low}
	high := harness.Job{Name: "high", Steps: 20, Priority: harness.High}
	s.create(low)
	s.untilAttempt("low", 1)
	s.untilStep("low", 1, 20)
	before := s.workload("low")
	toll.Judge(func(r harness.Request) harness.Verdict {
		switch {
		case r.Is(http.MethodPatch, "/workloads/low-w1/status") && strings.Contains(r.Body, `"admission":null`):
			return harness.Refuse
		case r.Is(http.MethodDelete, "/jobsets/low-1"):
			return harness.KillAfter
		}
		return harness.Pass
	})
	s.create(high)
	s.untilKilled(toll)
	if !harness.Reserved(s.workload("low")) {
		t.Fatal("the quota was given back, too soon for this test")
	}
	s.must(toll.Leave(t.Context()))
	s.succeeds(high)
	job := s.succeeds(low)
	if after := s.workload("low"); after.UID != before.UID {
		t.Error("the Workload was made anew, and lost its place in the queue")
	}
	if job.Status.Attempt != 2 || job.Status.Preemptions != 1 {
		t.Errorf("want 2 attempts and 1 preemption, there were %d and %d", job.Status.Attempt, job.Status.Preemptions)
	}
	s.yielded(job, 1, v1beta1.CausePreempted)
	s.resumed(job, 2)
}

// envSeed chooses the moments at which the runner is killed.
const envSeed = "E2E_SEED"

// At any moments, again and again, from the first attempt to the end of the
// second: all goes on, and nothing is lost.
func TestRunnerKilledAtRandomMoments(t *testing.T) {
	seed := time.Now().UnixNano()
	if text := os.Getenv(envSeed); text != "" {
		var err error
		if seed, err = strconv.ParseInt(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", envSeed, err)
		}
	}
	t.Logf("%s=%d chooses these moments", envSeed, seed)
	s := newScene(t, 2)
	kills := s.killAgainAndAgain(rand.New(rand.NewPCG(uint64(seed), 0)))
	low := harness.Job{Name: "low", Steps: 200, Priority: harness.Low}
	high := harness.Job{Name: "high", Steps: 20, Priority: harness.High}
	s.create(low)
	s.untilAttempt("low", 1)
	s.untilStep("low", 1, 20)
	s.create(high)
	s.succeeds(high)
	job := s.succeeds(low)
	if n := kills(); n < 4 {
		t.Errorf("the runner was killed %d times, too few to prove anything", n)
	} else {
		t.Logf("the runner was killed %d times", n)
	}
	if job.Status.Attempt != 2 || job.Status.Preemptions != 1 {
		t.Errorf("want 2 attempts and 1 preemption, there were %d and %d", job.Status.Attempt, job.Status.Preemptions)
	}
	s.yielded(job, 1, v1beta1.CausePreempted)
	s.resumed(job, 2)
}

// killAgainAndAgain kills the runner and starts it again, until the returned
// function is called, which says how often.
func (s *scene) killAgainAndAgain(moments *rand.Rand) func() int {
	ctx, stop := context.WithCancel(s.t.Context())
	var killer sync.WaitGroup
	kills := 0
	killer.Go(func() {
		for {
			// Some lives are too short to do anything, some long enough for several writes.
			life := time.Duration(moments.Float64() * moments.Float64() * float64(5*time.Second))
			select {
			case <-ctx.Done():
				return
			case <-time.After(life):
			}
			if err := runner.Kill(); err != nil {
				s.t.Error(err)
				return
			}
			kills++
			// Also when the test is over: others need it.
			if err := runner.Start(context.WithoutCancel(ctx), harness.Endpoint{}); err != nil {
				s.t.Error(err)
				return
			}
		}
	})
	end := sync.OnceFunc(func() {
		stop()
		killer.Wait()
	})
	s.t.Cleanup(end)
	return func() int {
		end()
		return kills
	}
}
