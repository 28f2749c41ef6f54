package checkpoint

import (
	"fmt"
	"time"
)

const runID = "6d1f1f0e-8a51-4a39-9d2c-3f3a1c1a0001"

var listed = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// save is the checkpoint of a step of an attempt: complete, of 4 ranks, every
// component readable at any shape.
func save(attempt int32, step int64) Manifest {
	return Manifest{
		ID: id(attempt, step), Attempt: attempt, Step: step, RunID: runID, WorldSize: 4,
		Layout: Layout{DP: 4, TP: 1, PP: 1, CP: 1, EP: 1, GlobalBatch: 64, Accumulation: 1},
		Components: map[string]Component{
			"model": {"any", true}, "optimizer": {"any", true}, "rng": {"any", true}, "data": {"any", true},
		},
		Objects: 4, Bytes: 4096,
	}
}

func id(attempt int32, step int64) string { return idOf(attempt, step, 0) }

func idOf(attempt int32, step int64, nonce int) string {
	return fmt.Sprintf("%06d-%012d-%012x-%016x", attempt, step, nonce, 0)
}

// fresh and from are what an attempt started from.
func fresh(attempt int32) Records { return Records{Start: &Start{Attempt: attempt, WorldSize: 4}} }

func from(attempt, restored int32, step int64) Records {
	return Records{Start: &Start{
		Attempt: attempt, WorldSize: 4,
		Restore: &Restore{Checkpoint: id(restored, step), Attempt: restored, Step: step},
	}}
}

func incomplete(m Manifest) Manifest {
	m.Incomplete = Prefix(m.Attempt, m.Step, "000000000000") + "01/r1-0 is missing (1024 bytes)"
	return m
}

func idOrNone(m *Manifest) string {
	if m == nil {
		return ""
	}
	return m.ID
}
