// Package kueue models Kueue 0.19 for the Workloads of an external framework: its
// queues, its scheduler, its controllers and what its webhooks and CRDs refuse.
//
// It is level-triggered: each write that Kueue would make by now is an event, and how
// late it happens is for the engine to choose. The watches are never late; that the
// scheduler acts on what has changed since is modelled with [Config.Late], where it
// decides in one event and writes in another.
//
// Facts that it keeps, of admission:
//   - queues are ordered by priority, then by creation, or by eviction where that was
//     for PodsReadyTimeout or AdmissionCheck; BestEffortFIFO tries the next when one has
//     no room, StrictFIFO does not;
//   - what has no room is parked until something changes in the ClusterQueue, and with
//     it all of the same shape and priority, which is not told why;
//   - quota is what podSets request, times their count; flavors are tried in order, by
//     taints and node labels; preemption is tried in a later flavor only if none fits;
//   - partial admission: the most pods, not below minCount, found by halves;
//   - an admission carries no resourceVersion and repeats every condition as it was when
//     the scheduler decided: one of older podSets can land after an update, with the
//     older observedGeneration; one that names other podSets is refused;
//   - the same goes for the scheduler's other writes: "Pending" can land over OnHold, and
//     a preemption brings back an admission that was released meanwhile;
//   - quota counts from the decision on, and is free again if the write fails.
//
// Of eviction and release:
//   - Evicted, and Preempted, are set once; the quota is held until the job side gives it
//     back; the preemptor waits at the head of its queue without limit, and nothing else
//     of the ClusterQueue is tried meanwhile;
//   - victims that are evicted already count first, then low priority, then the newest
//     reservation, and no more than are needed;
//   - Requeued=False keeps a Workload out, and is flipped back by its exact reason:
//     Deactivated when active, PodsReadyTimeout and AdmissionCheck after requeueAt,
//     LocalQueueStopped and ClusterQueueStopped when the queue runs; no other ever is;
//   - while requeueAt is to come, the controller does nothing else for the Workload;
//   - waitForPodsReady: without a condition, or WaitForStart, from the admission;
//     WaitForRecovery from its transition; any other reason has no limit; nothing once
//     evicted. requeueState counts, the back-off doubles, and beyond the limit the
//     Workload is deactivated (RequeuingLimitExceeded);
//   - spec.active=false frees the quota at once, with all conditions as they are but
//     Evicted; true without a release in between counts the old admission again, beyond
//     the quota too, and the Workload stays evicted and admitted;
//   - what Kueue deactivates itself goes by DeactivationTarget, spec.active, Evicted with
//     reason DeactivatedDueTo and the cause;
//   - OnHold keeps out of the queue; Inadmissible is written over it while a queue is
//     missing or stopped, and then it is queued once the queue runs; of a ClusterQueue
//     that stops Kueue may learn too late, and write nothing;
//   - what comes into the queues with its LocalQueue is tried, even where Requeued=False
//     or a back-off kept it out;
//   - an end in a LocalQueue that is stopped has nothing tried again, and the shapes that
//     had no room stay remembered: see [Kueue.Overlooks];
//   - HoldAndDrain evicts what is admitted, Hold does not; both take the reservation of
//     what still waits for checks; a missing LocalQueue evicts nothing;
//   - Finished frees quota, deleting the Workload does, and a Workload that a job owned
//     and nobody owns now is finished;
//   - eviction resets the checks to Pending; Rejected deactivates; Retry evicts.
//
// Of the rest:
//   - a new WorkloadPriorityClass, or a new value of it, is written to all that name it;
//     a changed priority has pending ones tried again only where a class is named;
//   - conditions carry observedGeneration, but for Preempted;
//   - podSets and queueName are immutable while quota is reserved, but fewer pods are
//     allowed; so is whether there is a class, its group and kind; an admission is set or
//     unset, not edited; podSetUpdates of a Ready check do not change.
//
// Left out: cohorts and borrowing, fair sharing, topology, workload slices that grow,
// MultiKueue, DRA, namespace selectors and LimitRanges, node affinity, resource
// transformations, blockAdmission, the retention of finished Workloads, the jitter of
// the back-off, the second for which changes are collected before parked Workloads are
// tried again, events, metrics, and of status: resourceRequests, schedulingStats and the
// counters of the queues.
package kueue
