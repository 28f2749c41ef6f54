package trainer

import (
	"math/rand/v2"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
)

// Behaviour is how an attempt's workers behave. It is chosen when the first of them
// starts. The zero value is a program that does everything right, in which a step and
// every part of a save are events and take no time.
type Behaviour struct {
	// StepTime is how long a step takes; 0: a step is an event of its own.
	StepTime time.Duration
	// SaveTime is how long a save takes from the copy to the commit.
	SaveTime time.Duration
	// RestoreTime is how long a restore takes, and what comes before the first step.
	RestoreTime time.Duration
	// ProgressTime is how often progress is reported besides what is reported at once;
	// 0: never.
	ProgressTime time.Duration
	// Total is the step at which the training is complete; 0: never.
	Total int64
	// SaveEvery is after how many steps a save may begin where a step is an event; 0:
	// after each. Where steps take time RTJ_CHECKPOINT_INTERVAL_SECONDS counts.
	SaveEvery int64
	// Objects is the number of data objects of each rank's part of a save; 0 is 1.
	Objects int
	// Whole has all parts of a save stored in one event. Then a kill comes before or
	// after them, or by the fault that tears them.
	Whole bool
	// Reshard of the components: none, dp or any; empty is any.
	Reshard string

	// Plain is a program without the SDK: it writes nothing.
	Plain bool
	// Bare is a program that rtj-run does not wrap: 0 after a committed yield.
	Bare bool
	// ReadyTime is how long the pods take to be ready; negative: for ever.
	ReadyTime time.Duration
	// CrashAt is the step at which rank 0's pod or, with CrashRank, another rank's
	// fails; 0: never. A crash with CrashRecorded is an exception, which the SDK records.
	CrashAt       int64
	CrashRank     int32
	CrashCode     int32
	CrashRecorded bool
	// Deaf workers hear of no yield, and SIGTERM does nothing to them.
	Deaf bool
	// DiesOnSIGTERM: SIGTERM ends every process at once with DieCode and no record.
	DiesOnSIGTERM bool
	DieCode       int32
	// Silent is a rank, from 1 on, that never answers the others; 0: none.
	Silent int32
	// RestoreFails is the cause with which every restore fails; empty: those of the
	// store only.
	RestoreFails string
}

func (b *Behaviour) components() map[string]checkpoint.Component {
	reshard := b.Reshard
	if reshard == "" {
		reshard = checkpoint.ReshardAny
	}
	component := checkpoint.Component{Reshard: reshard, Complete: true}
	return map[string]checkpoint.Component{"data": component, "model": component, "optimizer": component, "rng": component}
}

// Timed is a behaviour in which everything takes the time that it takes in a small
// training.
func Timed(total int64) Behaviour {
	return Behaviour{
		StepTime: 2 * time.Second, SaveTime: 3 * time.Second, RestoreTime: 4 * time.Second,
		ProgressTime: 10 * time.Second, ReadyTime: time.Second, Total: total,
	}
}

// Drawn is a timed behaviour as random worlds want it: mostly well, sometimes with one
// of the flaws that programs have.
func Drawn(r *rand.Rand, total int64, worldSize int32) Behaviour {
	b := Timed(total)
	b.StepTime = time.Duration(200+r.IntN(20_000)) * time.Millisecond
	b.SaveTime = time.Duration(r.IntN(20_000)) * time.Millisecond
	b.RestoreTime = time.Duration(r.IntN(30_000)) * time.Millisecond
	b.ProgressTime = time.Duration(2+r.IntN(60)) * time.Second
	b.ReadyTime = time.Duration(r.IntN(20_000)) * time.Millisecond
	b.Objects = 1 + r.IntN(2)
	b.Bare = r.IntN(6) == 0
	b.Whole = r.IntN(3) > 0
	switch r.IntN(16) {
	case 0, 1:
		b.CrashAt, b.CrashRank, b.CrashCode = 1+r.Int64N(max(1, total)), r.Int32N(worldSize), 1
		b.CrashRecorded = r.IntN(2) == 0
	case 2:
		b.Deaf = true
	case 3:
		b.DiesOnSIGTERM, b.DieCode = true, []int32{0, 143}[r.IntN(2)]
	case 4:
		b.SaveTime = time.Hour
	case 5:
		b.Silent = r.Int32N(worldSize)
	case 6:
		b.RestoreFails = []string{"outOfMemory", "incompatible", "other"}[r.IntN(3)]
	case 7:
		b.ReadyTime = -1
	case 8:
		b.Plain = r.IntN(2) == 0
	}
	return b
}
