// Package edge is what the hooks do around the pure core, without doing it: which
// readings of the store and which dry runs an answer waits for, what is remembered
// of a job between two answers, and when to look again. It reaches for nothing and
// waits for nothing: the time, readings and results are handed in. Package hooks
// drives it with goroutines and timers; whoever simulates a cluster drives it in
// virtual time.
//
// [Memory] and [Answering] are data. One answer of a job is worked on at a time by
// whoever guards its Memory.
package edge
