package world

import (
	"hash/fnv"
	"math/rand/v2"
)

// Random is a source of randomness for one purpose, named by a key. What is drawn
// for a purpose does not depend on what happened before, so that a run from which
// events are left out decides the rest as it did.
func Random(seed uint64, key string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(key)) // never fails
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// among returns one of the values.
func among[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// GCPercent is how programs that run worlds one after the other should set the
// garbage collector: little lives, much is left behind.
const GCPercent = 1600
