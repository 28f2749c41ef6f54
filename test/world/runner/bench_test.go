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

// What may happen, as the engine asks before each event.
func BenchmarkEvents(b *testing.B) {
	r := newRig(b, lagging)
	r.json = func() bool { return false }
	r.apply("llama")
	r.settle(time.Minute)
	r.spec("llama", "suspend", true)
	of := r.runners[0]
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		of.Events(func(event) { n++ })
		of.Next()
	}
	b.ReportMetric(float64(n)/float64(b.N), "events")
}

// A fingerprint, as exploration takes one of each state.
func BenchmarkFingerprint(b *testing.B) {
	r := newRig(b, lagging)
	r.json = func() bool { return false }
	r.apply("llama")
	r.settle(time.Minute)
	b.ReportAllocs()
	for b.Loop() {
		r.runners[0].Fingerprint(&plainHash{})
	}
}
