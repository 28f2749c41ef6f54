// Package hooks answers Metacontroller's sync, finalize and customize hooks for
// ResumableTrainingJobs.
//
// It is the edge around the pure core: it decodes what a runner observed, adds
// what only a live reader knows (the reading of the store, the credentials'
// Secret, a dry run of a refused launch, the time), asks package compose, and
// gives back the answer. The writes that no runner does, the patches, are carried
// out after the answer by package hooks/patch.
//
// [Hooks] is used in process by the embedded applier, and over HTTP by package
// hooks/server. What it remembers between two syncs of a job is only there to
// save work and to answer soon; all of it can be lost at any time.
package hooks
