// Package election makes one of several replicas the one that writes.
//
// An [Election] holds a Lease, as Kubernetes' own controllers do. That alone does
// not keep a replica from writing after another has taken over: one that was
// stopped for a while, or cut off, learns of its loss only after it has gone on.
// Hence the [Fence]: it knows, by this machine's own clock, until when no other
// replica can have the lease, and refuses every request that writes from then on,
// before it is sent. A closed fence does not open again; the process ends and
// starts afresh.
//
// What remains is the time between the last look at the clock and the moment at
// which the API server has the request. The fence closes before the lease ends
// (renew deadline and lease duration; 5 s between them by default), so a process
// would have to be stopped for that long just there. What it then sends still
// carries the resourceVersion or uid that it was decided upon, and is refused if
// anything has changed.
package election
