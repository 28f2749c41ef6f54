// Package apiserver models what controllers rely on in a Kubernetes API server:
// versions and optimistic concurrency, generations, the status subresource,
// finalizers, deletion in background and foreground and with a grace period,
// preconditions, validation, garbage collection by the UID of owners, the end of
// namespaces, and views that are late.
//
// Facts that it keeps:
//   - a write that changes nothing gives no new version;
//   - a write to the main resource does not touch status, and one to status touches
//     nothing else;
//   - generation counts changes of anything but metadata and status;
//   - an object with finalizers that is deleted stays, and takes no new finalizers;
//   - a pod that runs stays for its grace period, until its kubelet deletes it with
//     none; one that is not scheduled or has ended goes at once;
//   - the garbage collector deletes what has owners of which none exists, whenever
//     it comes to it, by UID: an owner of the same name is another one;
//   - in a namespace that ends nothing can be created.
//
// Left out: field managers. What RTJ writes goes by merge patches guarded by UID and
// resourceVersion, and status conditions of others are kept whole.
package apiserver
