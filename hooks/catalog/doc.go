// Package catalog reads what a run left in its store - manifests, records of
// its attempts, quarantine - into a checkpoint.Snapshot.
//
// It asks little of the store: three listings a reading, then only what is new
// or changed. Manifests and start records never change, so they are read once;
// whether a checkpoint is complete is checked once, and again when asked. It
// tells a store without checkpoints from one that cannot be read: a reading
// that could not be finished is a Failure and never a shorter snapshot, for a
// missing object would be taken for a torn checkpoint and a missing manifest
// for a run that starts fresh.
//
// docs/formats.md describes what is read.
package catalog
