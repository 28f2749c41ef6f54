package server

import "runtime"

// heapFloor is how large the heap may at least become between two collections.
const heapFloor = 64 << 20

// KeepHeapFloor keeps the garbage collector from running each time that a few
// megabytes were allocated: with a small live heap that is every thirty requests,
// and costs a third of the time of an answer. What it allocates for it is never
// touched, so it is address space and no memory. A process does so once, at its
// start; release ends it.
func KeepHeapFloor() (release func()) {
	ballast := make([]byte, heapFloor/2)
	return func() { runtime.KeepAlive(ballast) }
}
