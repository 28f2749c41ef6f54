package world_test

import (
	"testing"

	"rtj.dev/rtj/test/world"
)

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
