package world_test

import (
	"os"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"rtj.dev/rtj/test/world"
)

// Worlds live briefly and leave much behind: the collector need not come as often as
// the little that lives would have it come.
func TestMain(m *testing.M) {
	debug.SetGCPercent(world.GCPercent)
	os.Exit(m.Run())
}

// BenchmarkWorlds runs worlds from seed 0 on; an operation is a call of the hook.
func BenchmarkWorlds(b *testing.B) {
	calls, seed := 0, uint64(0)
	for calls < b.N {
		r := world.Run(seed)
		if r.Broken != nil {
			b.Fatalf("seed %d: %s", seed, r.Broken)
		}
		calls += r.Calls
		seed++
	}
}

// BenchmarkSmallWorld is the figure that is promised: calls of the hook in a second
// of processor time, with all that the world does for them. One in 100 goes through
// the messages of the hooks too, from the request to the plan; beside it, all do.
func BenchmarkSmallWorld(b *testing.B) {
	for name, jsonEvery := range map[string]int{"one_call_in_100_through_JSON_too": 100, "every_call_through_JSON_too": 1} {
		b.Run(name, func(b *testing.B) {
			calls, took := 0, time.Duration(0)
			for seed := uint64(0); calls < b.N; seed++ {
				w := world.Trained(seed, jsonEvery)
				before, began := w.Result().Calls, processorTime(b)
				r := w.Finish()
				took += processorTime(b) - began
				if r.Broken != nil {
					b.Fatalf("seed %d: %s", seed, r.Broken)
				}
				calls += r.Calls - before
			}
			b.ReportMetric(float64(calls)/took.Seconds(), "calls/s")
			b.ReportMetric(float64(took.Nanoseconds())/float64(calls), "ns/op")
		})
	}
}

// processorTime that this process has used, on all cores.
func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
