// Package runner models instances of `rtj run`: the product's own code from the
// observation to the write, driven in virtual time, one request at a time.
//
// A [Runner] is one instance. It sees the API server through views of its own, one
// for each kind, each a consistent state of the past that only moves forward. It
// syncs a job as the product does: package plan says whose the objects are, the
// objects are decoded by package hooks, package edge decides and says what the
// answer waits for, package compose decides, package plan says what is to be
// written, and package patch what comes of the patches. The writes then happen one
// by one, as events, so that everything else in the world can come between any two.
//
// What it keeps of the product:
//   - an object is known by the views alone, but for live reads: the parent before
//     an adoption, what has the name of a child, the job and the LIST before a patch;
//   - after a write the job is not synced again before the views show it;
//   - the actions of a wave may be answered in any order, waves follow each other;
//   - an answer waits for a reading of the store for two seconds, then it is given
//     without, and the end of the reading syncs the job;
//   - patches of one job are made in rounds, the newest decision's;
//   - a start loses everything but the requests that are on their way.
//
// What it leaves out: leases (two instances both act, which is worse than what
// leader election allows), quarantine and the bounds of the applier, which a few
// jobs do not reach, jitter, credentials, and the 200 ms that gather changes of an
// object that many jobs ask for.
//
// Objects are decoded once for each version and children that stay as they were
// observed are told by identity; now and then (see [Env.JSON]) a sync goes the whole
// way through the messages of the hooks too, and must come to the same.
package runner
