// Package lifecycle runs the scripts of testdata/lifecycle: stories of one job,
// told by what Kueue, JobSet, the workers and the store show, with what was
// decided after each command.
//
// The production hooks decide. What they decide is applied to the scripted
// objects as an API server would: children created, updated and deleted, status
// stored, patches made if their preconditions hold. Nothing moves by itself; all
// else is set by commands. testdata/README.md describes the language.
package lifecycle
