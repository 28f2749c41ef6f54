// Package arbitrary makes observations of one job in any state that the types
// allow, also in states that no sequence of events leads to: what is stale, half
// written or written by others looks like that.
package arbitrary
