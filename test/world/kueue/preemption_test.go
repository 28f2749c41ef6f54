package kueue_test

import (
	"fmt"
	"testing"
	"time"

	"rtj.dev/rtj/test/world/kueue"
)

// Long grace periods do not add up: all victims are evicted in one pass, and each
// drains by itself.
func TestAllVictimsAreEvictedAtOnce(t *testing.T) {
	f := newFixture(t, kueue.Config{}, "gold=20")
	for i := range 20 {
		f.workload(fmt.Sprintf("victim-%d", i), 1, 0)
	}
	f.settle()
	f.workload("high", 20, 10)
	f.settle()
	for i := range 20 {
		f.is(fmt.Sprintf("victim-%d", i), "Evicted=True/Preempted", "QuotaReserved=True")
	}
	// They gave their quota back in any order, an hour apart from the first to the last.
	f.now = f.now.Add(time.Hour)
	for i := range 20 {
		f.is("high", "QuotaReserved=False/Pending")
		f.release(fmt.Sprintf("victim-%d", 19-i), "Pending", "True", "Preempted")
		f.settle()
	}
	f.is("high", "Admitted=True")
}
