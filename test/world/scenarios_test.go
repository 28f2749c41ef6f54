package world

import (
	"testing"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/trainer"
)

// Twenty victims that take four minutes each to end make room in the time of one: they
// hear nothing, are stopped at their deadline after two minutes, and killed after the
// two minutes of grace that their pods have.
func TestManyVictimsDrainAtOnce(t *testing.T) {
	const victims = 20
	deaf := func(a trainer.Attempt) trainer.Behaviour {
		b := trainer.Timed(1_000_000)
		b.Deaf = a.Name != "a"
		return b
	}
	s := newScene(t, Config{Jobs: victims + 1, Urgent: 1, Pods: 1, Quotas: []int64{victims}, Behave: deaf})
	urgent := jobSpec("queue", victims, 3)
	urgent["priorityClassName"] = "high"
	s.people.plans[0].spec = urgent
	low := s.config.jobNames()[1:]
	s.until("all victims run", time.Hour, func() bool {
		for _, name := range low {
			if s.phase(name) != "Running" {
				return false
			}
		}
		return true
	})
	s.created("a")
	began := s.Now()
	s.until("the urgent job runs", time.Hour, s.is("a", "Running"))
	if took := s.Now().Sub(began); took < 4*time.Minute || took > 4*time.Minute+15*time.Second {
		t.Errorf("%d victims took %s to make room", victims, took)
	}
	for _, name := range low {
		if n := s.job(name).Int("status", "preemptions"); n != 1 {
			t.Errorf("%s was preempted %d times, want once", name, n)
		}
	}
}

// A preemptor gets the quota, and starts pods, only when the last pod of its victim is
// gone; when it is done the victim goes on from its last step, and ends.
func TestAPreemptorWaitsAndItsVictimResumes(t *testing.T) {
	s := newScene(t, Config{Jobs: 2, Urgent: 1, Pods: 2, Quotas: []int64{2}, Behave: timed(100)})
	s.until("the victim trains", time.Hour, s.is("b", "Running"))
	s.passes(time.Minute)
	s.created("a")
	s.watch = func() {
		t.Helper()
		if s.holds("a") && s.podsOf("b") > 0 && s.phase("a") != "Succeeded" {
			t.Fatalf("%s: the preemptor holds quota, and %d pods of its victim are left", s.Now().Sub(epoch), s.podsOf("b"))
		}
		if n := s.podsOf("a") + s.podsOf("b"); n > 2 {
			t.Fatalf("%d pods run on quota for 2", n)
		}
	}
	s.until("the preemptor runs", time.Hour, s.is("a", "Running"))
	s.until("the preemptor is done", time.Hour, s.is("a", "Succeeded"))
	s.until("the victim runs again", time.Minute, s.is("b", "Running"))
	s.until("the victim is done", time.Hour, s.is("b", "Succeeded"))
	over := s.trainer.Over()
	victim, again := over[0], over[len(over)-1]
	if victim.Name != "b" || again.Name != "b" || victim.Lost() != 0 || again.Base() != victim.Step || victim.Step == 0 {
		t.Errorf("the victim made %d steps, lost %d, and went on from %d", victim.Step, victim.Lost(), again.Base())
	}
}

// Of two jobs of equal priority the one that was created first, and was evicted, runs
// again before the one that has waited since.
func TestAnEvictedJobKeepsItsPlace(t *testing.T) {
	const first, second = "c", "b"
	s := newScene(t, Config{Jobs: 3, Urgent: 2, Pods: 1, Quotas: []int64{1}, Behave: timed(60)})
	s.people.plans[1].spec = jobSpec("queue", 1, 3) // not urgent, only later
	s.until("the first trains", time.Hour, s.is(first, "Running"))
	s.created(second)
	s.until("the second waits", time.Minute, s.is(second, "Queued"))
	s.passes(30 * time.Second)
	s.created("a")
	s.until("the urgent job is done", time.Hour, s.is("a", "Succeeded"))
	s.watch = func() {
		t.Helper()
		if s.holds(second) && s.phase(first) != "Succeeded" {
			t.Fatal("the one that waited gets the quota before the one that was evicted")
		}
	}
	s.until("the first is done", time.Hour, s.is(first, "Succeeded"))
	s.until("the second is done", time.Hour, s.is(second, "Succeeded"))
	if n := s.job(first).Int("status", "preemptions"); n != 1 {
		t.Errorf("the first was preempted %d times, want once", n)
	}
}

// A head of the queue that can never be admitted preempts nobody, however urgent.
func TestAHeadThatNeverFitsPreemptsNobody(t *testing.T) {
	s := newScene(t, Config{Jobs: 2, Urgent: 1, Pods: 2, Quotas: []int64{2}, Behave: timed(200)})
	huge := jobSpec("queue", 3, 3)
	huge["priorityClassName"] = "high"
	s.people.plans[0].spec = huge
	s.until("the small one trains", time.Hour, s.is("b", "Running"))
	s.created("a")
	s.until("the small one is done", time.Hour, s.is("b", "Succeeded"))
	if n := s.job("b").Int("status", "preemptions"); n != 0 || s.job("b").Int("status", "attempt") != 1 {
		t.Errorf("it was preempted %d times", n)
	}
	if s.phase("a") != "Queued" {
		t.Errorf("the one that does not fit is %s", s.phase("a"))
	}
}

// Pods that never become ready give their quota back after the startup deadline of 15
// minutes, for a job that waits.
func TestPodsThatAreNeverReadyFreeTheirQuota(t *testing.T) {
	s := newScene(t, Config{Jobs: 2, Pods: 1, Quotas: []int64{1}, Behave: func(a trainer.Attempt) trainer.Behaviour {
		b := trainer.Timed(10)
		if a.Name == "a" {
			b.ReadyTime = -1
			b.Deaf = true
		}
		return b
	}})
	s.until("the first one starts pods", time.Minute, func() bool { return s.podsOf("a") > 0 })
	s.until("the other one is done", 17*time.Minute, s.is("b", "Succeeded"))
	if n := s.job("a").Int("status", "failures", "withoutProgress"); n != 0 {
		t.Errorf("pods that never became ready count as %d failures", n)
	}
}

// A ClusterQueue that is deleted stays for as long as a job holds quota in it. The job
// trains on; paused and resumed it waits, and runs again from its last step when an
// administrator has made the ClusterQueue anew.
func TestAClusterQueueIsDeletedUnderAJob(t *testing.T) {
	s := newScene(t, Config{Jobs: 1, Pods: 1, Quotas: []int64{1}, Behave: timed(300)})
	s.until("it trains", time.Hour, s.is("a", "Running"))
	s.passes(time.Minute)
	queue := s.api.Get("ClusterQueue", "", "cluster")
	spec := queue.At("spec")
	s.people.delete(queue, apiserver.Background)
	s.changed()
	s.passes(time.Minute)
	if s.phase("a") != "Running" || s.job("a").Int("status", "attempt") != 1 {
		t.Fatalf("a queue that is deleted stopped it: %s", s.phase("a"))
	}
	s.people.patch(s.job("a"), map[string]any{"spec": map[string]any{"suspend": true}})
	s.changed()
	s.until("the queue is gone", 10*time.Minute, func() bool { return s.api.Get("ClusterQueue", "", "cluster") == nil })
	s.until("it is paused", time.Minute, s.is("a", "Paused"))
	s.people.patch(s.job("a"), map[string]any{"spec": map[string]any{"suspend": false}})
	s.changed()
	s.passes(time.Minute)
	if s.holds("a") || s.phase("a") == "Running" {
		t.Fatalf("without a queue it is %s", s.phase("a"))
	}
	if _, err := s.api.Create("administrator", map[string]any{
		"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": map[string]any{"name": "cluster"}, "spec": spec,
	}); err != nil {
		t.Fatal(err)
	}
	s.changed()
	s.until("it trains again", 10*time.Minute, s.is("a", "Running"))
	over := s.trainer.Over()
	if paused := over[len(over)-1]; paused.Lost() != 0 || s.job("a").Int("status", "checkpoint", "restoredFrom", "step") != paused.Step {
		t.Errorf("it was paused at step %d, and goes on from %v", paused.Step, s.job("a").At("status", "checkpoint", "restoredFrom"))
	}
}

// A namespace that is deleted while a job drains takes everything with it, within the
// pods' grace period, and nothing is made in it any more.
func TestANamespaceIsDeletedWhileAJobDrains(t *testing.T) {
	s := newScene(t, Config{Jobs: 1, Pods: 2, Quotas: []int64{2}, Behave: func(trainer.Attempt) trainer.Behaviour {
		b := trainer.Timed(1_000_000)
		b.SaveTime = time.Minute
		return b
	}})
	s.until("it trains", time.Hour, s.is("a", "Running"))
	s.passes(time.Minute)
	s.people.patch(s.job("a"), map[string]any{"spec": map[string]any{"suspend": true}})
	s.changed()
	s.until("it drains", time.Minute, s.is("a", "Draining"))
	s.people.delete(s.api.Get("Namespace", "", namespace), apiserver.Background)
	s.changed()
	s.until("everything is gone", 3*time.Minute, func() bool {
		for _, kind := range []string{jobKind, "Workload", "JobSet", "Job", "Pod", "ConfigMap", "Namespace"} {
			if len(s.api.List(kind)) > 0 {
				return false
			}
		}
		return true
	})
	if s.broken != nil {
		t.Fatal(s.broken)
	}
}
