package world_test

import (
	"testing"

	"rtj.dev/rtj/test/world"
)

// What is bounded in status has its bound after 20 attempts; `sim -cycles 10000` goes on
// for as long as anybody wants, and shows the same.
func TestPreemptedAgainAndAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	const cycles = 300
	var early int
	found := world.Preempted(1, cycles, func(c *world.Cycles) {
		if c.Done == cycles/2 {
			early = c.StatusBytes
		}
	})
	if found.Broken != nil {
		t.Fatal(found.Broken)
	}
	// Numbers get longer, nothing else.
	if found.StatusBytes > early+100 {
		t.Errorf("the job took %d bytes after %d cycles, and takes %d after %d", early, cycles/2, found.StatusBytes, cycles)
	}
}
