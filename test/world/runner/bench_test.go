package runner_test

import (
	"testing"
	"time"

	"rtj.dev/rtj/test/world/runner"
)

// A sync of a job that runs, with its plan, where nothing is to be written: what an
// instance costs a simulated world. One in 100 goes through JSON too.
func BenchmarkSync(b *testing.B) {
	r := newRig(b, runner.Options{Name: "rtj-0"})
	calls := 0
	r.json = func() bool { calls++; return calls%100 == 0 }
	r.apply("llama")
	r.settle(time.Minute)
	if got := r.phase("llama"); got != "Running" {
		b.Fatalf("phase %s", got)
	}
	of := r.runners[0]
	b.ReportAllocs()
	before := of.Syncs()
	for b.Loop() {
		of.Sync("team", "llama")
	}
	b.ReportMetric(float64(of.Syncs()-before)/b.Elapsed().Seconds(), "calls/s")
}

// A clone of an instance, as exploration makes one for each state.
func BenchmarkClone(b *testing.B) {
	r := newRig(b, runner.Options{Name: "rtj-0", Lag: true})
	r.json = func() bool { return false }
	r.apply("llama")
	r.settle(time.Minute)
	of, env := r.runners[0], r.env()
	b.ReportAllocs()
	for b.Loop() {
		of = of.Clone(env)
	}
}
