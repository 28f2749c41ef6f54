// Package lifecycle runs the scripts of testdata/lifecycle: stories of one job, with
// what was decided after each command.
//
// The production hooks decide in a simulated cluster (test/world): its API server,
// Kueue, JobSet and Jobs, kubelets and store, each with its own rules. Nothing moves by
// itself: a command has one part do one thing, and what the hooks decide upon it is
// carried out at once, children created, updated and deleted, status stored, patches
// made if their preconditions hold. testdata/README.md describes the language.
package lifecycle
