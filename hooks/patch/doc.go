// Package patch carries out the patches of decisions: the few writes that are not
// the creation, update or deletion of a child.
//
// The patches of one job are made one after the other, and those of two decisions
// about one job never at the same time: a newer decision replaces one that waits.
// Each patch is preceded by the live reads that its preconditions ask for, and
// carries the resourceVersion that the decision was made upon, so that a decision
// upon an old state of the cluster changes nothing. What is lost that way is
// computed again at the next sync, from what is then observed.
package patch
