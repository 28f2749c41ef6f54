package world_test

import (
	"flag"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"rtj.dev/rtj/test/world"
)

var calls = flag.Int64("calls", 200_000, "how many calls of the hook the short run makes")

// TestWorldsKeepThePromises runs worlds from seed 0 on until enough calls were made.
// `make sim SEED=n` shows one of them.
func TestWorldsKeepThePromises(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	var next, made atomic.Int64
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for made.Load() < *calls && !t.Failed() {
				seed := uint64(next.Add(1) - 1)
				r := world.Run(seed)
				made.Add(int64(r.Calls))
				if r.Broken != nil {
					t.Errorf("seed %d: %s", seed, r.Broken)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d worlds, %d calls", next.Load(), made.Load())
}

// A seed that is not one run is no use to anybody.
func TestSeedsReplay(t *testing.T) {
	for seed := range uint64(40) {
		first, a := world.Recorded(seed)
		second, b := world.Recorded(seed)
		if !slices.Equal(first, second) || a.Calls != b.Calls {
			t.Fatalf("seed %d: two runs differ", seed)
		}
	}
}
