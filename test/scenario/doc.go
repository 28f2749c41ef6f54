// Package scenario reads and writes the golden cases of testdata/sync: what was
// observed, what the store held, and what was decided. testdata/README.md
// describes the files.
package scenario
