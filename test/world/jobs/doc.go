// Package jobs models what runs pods in a simulated world: the JobSet controller
// (0.12) with its webhooks, the Job controller of Kubernetes 1.36, the scheduler,
// nodes and their kubelets, and what looks after nodes and pods: node lifecycle,
// taint eviction, the garbage collector of pods, ResourceQuotas.
//
// Every controller is level-triggered: an event is offered as long as it would write
// something. The writes of one reconciliation are events of their own where somebody
// can see the state between them: Jobs before the JobSet's status, pods before the
// Job's status, FailureTarget or SuccessCriteriaMet before finalizers before Failed
// or Complete, the phase of a pod before its removal.
//
// Facts that it keeps:
//   - a JobSet that is created suspended makes suspended Jobs and no pods. Its first
//     status says Suspended with counts of no Jobs: they were counted before they were
//     made. A status is dropped if the JobSet changed since;
//   - replicatedJobsStatus counts Jobs: ready with succeeded and ready pods together,
//     active while status.active is not 0, suspended by spec.suspend;
//   - a failed Job makes the JobSet Failed, ReachedMaxRestarts or without a
//     failurePolicy FailedJobs, with a message that names the first; Completed as the
//     successPolicy asks. Then its active Jobs are deleted, in the foreground;
//   - suspending sets the Jobs' suspend before the JobSet's Suspended condition; the
//     Job controller takes its finalizer from active pods before it deletes them, so
//     that they do not count, and unsets startTime;
//   - pods that were terminating already when a Job is suspended count, and may
//     complete it; a pod that is seen failed fails it, even one that was let go;
//   - a suspended Job cannot become Failed or Complete: the API server asks for a
//     startTime then. It stays at FailureTarget or SuccessCriteriaMet until it is resumed;
//   - failed pods are judged by the podFailurePolicy in the order of its rules; of
//     several failed pods any may give the message. With a policy, pods that are
//     deleted count and are replaced only once they have ended;
//   - a Job is Failed or Complete only when no pod of it terminates and all are
//     counted;
//   - a pod's phase is that of its processes' code, also when it was deleted: exit 0 on
//     SIGTERM is a success. One that never ran is Failed, with code 137 if the kubelet
//     had taken it up;
//   - eviction, taints, the kubelet and the pod garbage collector set DisruptionTarget
//     before they end a pod;
//   - a silent node is unreachable after 50 s, its pods are deleted 300 s later and
//     terminate for ever, and their processes go on until it returns. While no node is
//     heard, or most are not, no pod is deleted. Pods of a Node
//     that does not exist are collected after 40 s; their processes go on as well;
//   - the control directory follows a ConfigMap after up to 67 s, and all of it at once
//     when the pod's notice changes, but not while the pod terminates;
//   - SIGTERM, the grace period of at least 2 s, SIGKILL;
//   - what the webhook and the CRD of JobSet refuse to be changed, names that are too
//     long, and the defaults.
//
// Left out:
//   - late caches, but for the JobSet controller, which may write what it decided up to
//     ten seconds before (rtj relies on less than fifteen): the others act on the newest objects, at any later time;
//   - restarts and failure policy rules of JobSet, exclusive placement, volume claims,
//     ttl, the elastic and in-place gates, its headless Service;
//   - of Jobs: backoffLimitPerIndex, successPolicy, back-off between pods, restartPolicy
//     other than Never, the environment JOB_COMPLETION_INDEX;
//   - several containers of a pod that end differently, init containers, probes other
//     than what Workers say;
//   - scheduling by more than selectors, taints and requests; preemption of pods.
package jobs
