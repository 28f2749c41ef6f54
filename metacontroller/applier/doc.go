// Package applier runs a Metacontroller CompositeController: it watches the
// parents, their children and the related objects that the controller's YAML
// names, calls the hooks, and makes the cluster what they answer.
//
// It knows nothing about any particular parent. Hooks are reached through the
// [Hooks] interface, in process or over a network.
//
// # What is written, and how
//
// Every write says which state of the object it was decided upon, so that a
// cache that lags behind can delay a change but never undo someone else's:
//
//   - A child that the hook saw is updated with its uid and resourceVersion, and
//     deleted with both as preconditions. If it has changed since, the API server
//     refuses with a conflict and the next event brings a new decision.
//   - A child that the hook did not see is created by POST. If it exists all the
//     same, the POST fails: a lost race if the parent controls the object, an
//     error on that child if someone else does.
//   - The status is updated with the parent's resourceVersion.
//
// After a write, a parent is not synced again before the caches have seen that
// write (or some seconds have passed), so that a hook does not decide twice upon
// one observation.
//
// Nothing is written, and nothing read from the API server, when what the hook
// wants is already there. What the API server keeps changing back (a default, a
// quantity in another notation, a field that the schema does not have) is
// remembered from the response to the write that met it and does not count as a
// difference again.
//
// # In which order
//
// First what is not wanted any more is deleted, in the reverse of the order in
// which the last answer that held it had it; then the children of the answer are
// created and updated in its order. A wave is a run of neighbours of the same
// kind. The requests of a wave are begun in order and may be under way at once;
// the next wave begins when the API server has answered all of them. A wave does
// not wait for its children to become ready, nor to be gone: a hook that needs
// that returns the later ones once it observes the earlier ones as they should be.
// A child that fails stops neither its wave nor the next ones nor the status.
//
// The finalizer of a parent goes once the hook says finalized and every child that
// it does not want is observed to be gone.
//
// # Sharing
//
// Parents wait in one queue, first come, first served, each at most once. A sync
// ends after a bounded number of writes, and the rest follows when the others had
// their turn (see [Limits]); so neither a parent with a thousand children nor one
// that changes all the time keeps others from theirs. A parent that fails is tried
// again after 0.1 s, doubled each time up to a minute. When it has failed three
// times in a row, or took more than half a second to fail, it is quarantined until
// it succeeds: such parents together use a quarter of the workers at most.
//
// # Memory
//
// Held in memory are the objects of the watches, without managedFields and
// last-applied annotations, and a few hundred bytes for each parent and child as
// long as they exist. Where the selector is generated, only objects with its label
// are watched. [MetadataOnlyAnnotation] leaves out the bodies of kinds of which the
// hooks read only metadata.
//
// # Complete and partial children
//
// Two styles of hooks are in use, and no response tells them apart; the
// annotation [ChildrenAnnotation] on the CompositeController does.
//
// "partial": a child is what the hook cares for, as for kubectl apply. Children
// are updated by server-side apply, forced, with a field manager of their own:
// fields that others set stay, fields that the hook no longer returns go. This
// is the default.
//
// "complete": a child that the hook saw is returned whole, as observed with only
// the hook's own fields changed; what it leaves out is removed. Server-side apply
// would be wrong here. Since such an answer repeats every field of every other
// writer, an apply of it would make this program a co-owner of all of them: a
// value that its real owner stops applying would stay for ever, and each of its
// changes would be forced back until the cache has caught up. So the answer is
// compared with the observed object instead and only the difference is sent, as a
// JSON merge patch (RFC 7386). Fields without a difference are not sent, so they
// stay their writers' own. A list counts as one value; replacing it whole is
// sound because the patch is guarded by the resourceVersion that the list was
// read at.
//
// Of a child's metadata, labels and annotations are compared; finalizers and
// owner references are set at creation only. A child's status is written only for
// the kinds that [ChildStatusAnnotation] lists: by server-side apply to the status
// subresource, with a field manager of its own, in both styles. An answer without
// a status for such a child leaves its status alone; an empty one takes back what
// was applied.
package applier
