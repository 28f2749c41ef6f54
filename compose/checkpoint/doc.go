// Package checkpoint decides, from a snapshot of a run's metadata, which
// checkpoint an attempt starts from.
//
// It is pure: the edge reads the store and fills a Snapshot; Select orders and
// judges it. Checkpoints are ordered by attempt and step and by what each
// attempt says it started from, never by a clock, so a zombie of an older
// attempt that commits late changes nothing that a newer attempt reads.
//
// docs/formats.md describes the documents.
package checkpoint
