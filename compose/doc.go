// Package compose holds every decision of RTJ as pure functions.
//
// Sync and Finalize take an Observation, all that is known at one instant, and
// return a Decision: the children that should exist, the status, a few guarded
// patches, and when to look again. There is no I/O, no clock, no randomness and
// no logging in here: the same input gives the same output, byte for byte.
//
// The decisions are rule tables: an ordered list of named rules, of which the
// first match wins. The Decision lists the match of every table, so that one can
// always say which rule decided, and why. A rule's name may stand in several
// tables: docs/concepts.md lists the file of each table; search it for the name.
//
// Contract with the caller:
//
//   - A child of the observation that is not in the Decision is to be deleted.
//   - A child that exists is returned as observed with only our fields changed.
//   - Patches are carried out after the answer, each only if its preconditions
//     hold at that moment; one that fails is dropped, since the next Sync
//     compares with what it observes and returns it again.
//   - What must be remembered stands in status. An act that relies on such a
//     fact is returned only when the fact stands in the observed parent.
package compose
