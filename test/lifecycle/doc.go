// Package lifecycle runs the scripts of testdata/lifecycle: stories of one job, with
// what was decided after each command.
//
// They play on the parts of the simulated world (test/world): its API server, Kueue,
// JobSet and Jobs, kubelets, store and workers, each with its own rules, and an instance
// of rtj as the simulation has it, with the real decisions, the applier's plans and every
// request as a message too. Nothing else moves by itself: a command has one part do one
// thing, and rtj then does all that there is to do. testdata/README.md describes the
// language.
package lifecycle
