package kueue_test

import (
	"testing"

	"rtj.dev/rtj/test/world/event"
	"rtj.dev/rtj/test/world/kueue"
)

// BenchmarkPreemptAndRequeue is one round of a small world: a preemption, the release,
// both admissions, with Kueue asked for its events after each write.
func BenchmarkPreemptAndRequeue(b *testing.B) {
	f := newFixture(b, kueue.Defaults(), "gold=2")
	f.workload("low", 2, 0)
	f.workload("high", 2, 10)
	f.settle()
	from := f.api.Revision()
	for b.Loop() {
		f.release("high", "OnHold", "", "")
		f.settle()
		f.set("high", "QuotaReserved", "False", "Pending")
		f.settle()
		f.release("low", "Pending", "True", kueue.Preempted)
		f.settle()
		f.api.Forget("Workload", f.api.Revision())
	}
	writes := int(f.api.Revision() - from)
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(writes), "µs/write")
}

// BenchmarkNothingToDo is what asking for events costs where nothing has changed.
func BenchmarkNothingToDo(b *testing.B) {
	f := newFixture(b, kueue.Defaults(), "gold=2")
	f.workload("low", 2, 0)
	f.workload("high", 2, 10)
	f.settle()
	for b.Loop() {
		f.Events(func(event.Event) {})
	}
}
