package runner_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"rtj.dev/rtj/test/world/runner"
)

// From the first sync to pods that run, and through a pause to none, with every sync
// through the messages of the hooks too.
func TestAJobRunsAndIsPaused(t *testing.T) {
	r := newRig(t, runner.Options{Name: "rtj-0"})
	r.apply("llama")
	r.settle(time.Minute)
	if got := r.phase("llama"); got != "Running" {
		t.Fatalf("phase %s", got)
	}
	r.spec("llama", "suspend", true)
	r.settle(20 * time.Minute)
	if got := r.phase("llama"); got != "Paused" {
		t.Fatalf("phase %s", got)
	}
	for _, p := range r.api.List("Pod") {
		if phase := p.Text("status", "phase"); phase != "Succeeded" && phase != "Failed" {
			t.Errorf("%s is %s", p, phase)
		}
	}
}

// Whatever order things come in and whatever fails, the messages of the hooks lead
// to the same plans, and once nothing fails any more the job runs.
func TestSyncsAreTheSameThroughMessages(t *testing.T) {
	for seed := range uint64(4) {
		r := newRig(t, runner.Options{Name: "rtj-0", Lag: true, SlowReads: true, Faults: true}, runner.Options{Name: "rtj-1", Lag: true, SlowReads: true, Faults: true})
		r.apply("llama")
		r.wander(rand.New(rand.NewPCG(seed, 0)), 600)
		r.spec("llama", "suspend", true)
		r.wander(rand.New(rand.NewPCG(seed, 1)), 300)
		r.spec("llama", "suspend", false)
		r.settle(2 * time.Hour)
		if got := r.phase("llama"); got != "Running" {
			t.Errorf("seed %d: phase %s", seed, got)
		}
	}
}
