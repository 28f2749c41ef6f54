// Package manager runs any number of CompositeControllers, each with an applier
// of its own, given or read from the cluster's CompositeController objects.
//
// Controllers do not touch each other. One that cannot be run (its spec is
// invalid, the cluster lacks a kind that it names, its hooks cannot be reached
// the way it says) is refused: a log line and, where it is an object of the
// cluster, a Warning event on it name the object and the rule. What may get
// better by itself, such as a CRD that is installed later, is tried again with a
// growing back-off; an invalid spec waits for its next edit.
//
// A controller whose spec or annotations change is restarted, and the old applier
// has stopped before the new one starts, so that a parent is never synced by two.
//
// # Deletion of a CompositeController
//
// A parent keeps the finalizer of its CompositeController until the finalize hook
// lets it go. When the CompositeController itself is deleted nobody calls that
// hook any more, and with Metacontroller such parents hang in Terminating until
// someone edits them. The manager removes the finalizer instead, from all parents,
// half a minute after the deletion, so that a controller that is only replaced
// (kubectl replace --force, a reinstallation) is back before. Parents and children
// stay as they are; a parent that is being deleted goes without its finalize hook,
// which could not have been called. [ReleaseFinalizers] does the same on demand,
// for a deletion that nobody watched.
package manager
