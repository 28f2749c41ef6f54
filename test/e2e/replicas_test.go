//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/test/figures"
	"rtj.dev/rtj/test/harness"
)

// These tests run two operators in place of the one that all jobs share, so they
// run alone.

// replicas are two operators, the first of which leads.
type replicas struct {
	*scene
	n int
}

func newReplicas(s *scene) *replicas {
	s.t.Helper()
	if runner != embedded {
		s.t.Skip("Metacontroller elects its own leader")
	}
	s.must(runner.Stop())
	s.t.Cleanup(func() {
		if err := runner.Start(context.Background(), harness.Endpoint{}); err != nil {
			s.t.Error(err)
		}
	})
	return &replicas{scene: s}
}

// start starts a replica and ends it with the test.
func (r *replicas) start() *harness.Replica {
	r.t.Helper()
	r.n++
	replica, err := world.StartReplica(r.t.Context(), fmt.Sprintf("%s-%d", r.Name, r.n))
	r.must(err)
	r.t.Cleanup(func() {
		replica.Stop()
		if r.t.Failed() {
			r.t.Logf("log of %s:\n%s", replica.Identity, replica.Log())
		}
	})
	return replica
}

// untilLeads waits until a replica holds the lease, and returns when the API
// server got the request by which it did.
func (r *replicas) untilLeads(replica *harness.Replica) time.Time {
	r.t.Helper()
	var taken time.Time
	r.must(harness.Until(r.t.Context(), patience, replica.Identity+" leads", func(context.Context) (bool, string, error) {
		writes, err := world.WritesBy(replica.Identity)
		for _, w := range writes {
			if w.Resource == "leases" && w.Code < 300 {
				taken = w.At
				return true, "", nil
			}
		}
		return false, "it does not hold the lease", err
	}))
	return taken
}

// One that is told to end hands over at once, and the job in its care does not
// notice.
func TestReplicaHandsOverWhenItEnds(t *testing.T) {
	s := newScene(t, 2)
	r := newReplicas(s)
	first := r.start()
	r.untilLeads(first)
	second := r.start()
	low := harness.Job{Name: "low", Steps: 150, Priority: harness.Low}
	s.create(low)
	s.untilAttempt("low", 1)

	asked := time.Now()
	s.must(first.Signal(syscall.SIGTERM))
	code, err := first.Ended(t.Context(), patience)
	s.must(err)
	if code != 0 {
		t.Errorf("it ends with exit code %d", code)
	}
	taken := r.untilLeads(second)
	figures.Print("hand-over between replicas on SIGTERM", "until the standby holds the lease", taken.Sub(asked).Seconds(), "s")
	s.create(harness.Job{Name: "high", Steps: 20, Priority: harness.High})
	s.untilAttempt("high", 1)
	job := s.succeeds(low)
	s.yielded(job, 1, v1beta1.CausePreempted)
	s.resumed(job, 2)
	r.nothingAfter(first, taken)
}

// One that is killed in the middle of a drain is replaced when its lease is over.
func TestReplicaTakesOverFromOneThatIsKilled(t *testing.T) {
	s := newScene(t, 2)
	r := newReplicas(s)
	first := r.start()
	r.untilLeads(first)
	second := r.start()
	low := harness.Job{Name: "low", Steps: 800, Priority: harness.Low}
	high := harness.Job{Name: "high", Steps: 20, Priority: harness.High}
	s.create(low)
	s.untilAttempt("low", 1)
	s.untilStep("low", 1, 20)
	s.create(high)
	s.until("low", "it drains", harness.InPhase(v1beta1.PhaseDraining))
	s.must(first.Signal(syscall.SIGKILL))
	r.untilLeads(second)
	s.succeeds(high)
	job := s.succeeds(low)
	if job.Status.Attempt != 2 || job.Status.Preemptions != 1 {
		t.Errorf("want 2 attempts and 1 preemption, there were %d and %d", job.Status.Attempt, job.Status.Preemptions)
	}
	s.yielded(job, 1, v1beta1.CausePreempted)
	s.resumed(job, 2)
}

// One that is stopped for longer than its lease, with much to do, writes nothing
// when it goes on: another leads. It ends, for whoever runs it to start it again.
func TestStoppedReplicaWritesNothingAfterItsLease(t *testing.T) {
	s := newScene(t, 2)
	r := newReplicas(s)
	first := r.start()
	r.untilLeads(first)
	second := r.start()
	const jobs = 12
	job := func(i int) string { return fmt.Sprintf("job-%d", i) }
	for i := range jobs / 2 {
		s.create(harness.Job{Name: job(i), Steps: 5})
	}
	cared := func(j *v1beta1.ResumableTrainingJob) bool { return j.Status.Phase != "" }
	s.until(job(0), "the first one cares for it", cared)
	// In the middle of it.
	s.must(first.Signal(syscall.SIGSTOP))
	for i := jobs / 2; i < jobs; i++ {
		s.create(harness.Job{Name: job(i), Steps: 5})
	}
	taken := r.untilLeads(second)
	s.must(first.Signal(syscall.SIGCONT))
	// The events of twelve jobs wait for it.
	code, err := first.Ended(t.Context(), patience)
	s.must(err)
	if code != 1 || !strings.Contains(first.Log(), "could not be renewed") {
		t.Errorf("it ends with exit code %d", code)
	}
	for i := range jobs {
		s.until(job(i), "the other one cares for it", cared)
	}
	r.nothingAfter(first, taken)
	// Started again it is a standby.
	third := r.start()
	if writes, err := world.WritesBy(third.Identity); err != nil || len(writes) > 0 {
		t.Errorf("a standby writes: %v %v", writes, err)
	}
	select {
	case <-second.Done():
		t.Error("its successor has ended")
	default:
	}
}

// nothingAfter checks in the audit log that a replica wrote nothing, not even in
// vain, after another had taken over.
func (r *replicas) nothingAfter(replica *harness.Replica, taken time.Time) {
	r.t.Helper()
	writes, err := world.WritesBy(replica.Identity)
	r.must(err)
	before := 0
	for _, w := range writes {
		switch {
		case w.Resource == "leases":
		case w.At.Before(taken):
			before++
		default:
			r.t.Errorf("%s wrote %s after another had taken over: %s", replica.Identity, w.At.Sub(taken), w)
		}
	}
	if before == 0 {
		r.t.Error("it wrote nothing before either, so this proves nothing")
	}
}
