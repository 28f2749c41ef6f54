// Package world is a deterministic simulation of the world that rtj lives in, for
// finding what breaks it: an API server, Kueue, JobSet, Jobs and nodes, an object
// store, workers that train, people, and any number of instances of rtj, which run
// the real core and the applier's own decisions. There is one clock, which moves
// when the engine says so, and one source of randomness, which is a seed.
//
// All that can happen is offered as events (package event). Three things choose
// among them:
//
//   - [Run]: at random, with faults, from a seed; then the faults stop and the world
//     has to settle as the specs ask. A failure is shrunk to a short script.
//   - [Explore]: every order, in small worlds, with at most so many faults a run.
//   - scripts (package test/lifecycle): a person. They have the same parts, with an
//     instance of rtj as the simulation has it, but not the engine: no [World], and
//     no promises.
//
// promises.go has what must hold in every world that is run or explored, each promise
// at the moment that its field names.
package world
