package v1beta1

// Reasons of the Ready condition in phase Pending: what is missing before the
// job may be queued. Those of the store (Secret..., Bucket..., Store...) and
// DefaultLocalQueueCapturesPods are also reasons of status.hold.
const (
	// ReasonQueueNotFound: no LocalQueue has the name spec.queueName.
	ReasonQueueNotFound = "QueueNotFound"
	// ReasonClusterQueueNotFound: the LocalQueue names a ClusterQueue that does not exist.
	ReasonClusterQueueNotFound = "ClusterQueueNotFound"
	// ReasonDefaultLocalQueueCapturesPods: a LocalQueue named default exists in the
	// namespace, and Kueue's Pod integration would take the attempts' pods for jobs
	// of their own.
	ReasonDefaultLocalQueueCapturesPods = "DefaultLocalQueueCapturesPods"
	// ReasonQueueLabelOnJob: the job itself carries the label
	// kueue.x-k8s.io/queue-name, which would be a second place that names a queue.
	ReasonQueueLabelOnJob = "QueueLabelOnJob"
	// ReasonPriorityClassNotFound: no WorkloadPriorityClass has the name spec.priorityClassName.
	ReasonPriorityClassNotFound = "PriorityClassNotFound"
	// ReasonSecretNotFound: the Secret of spec.checkpoint.storage.credentials does not exist.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonSecretIncomplete: the Secret lacks a key that it must have.
	ReasonSecretIncomplete = "SecretIncomplete"
	// ReasonBucketNotFound: the store answers, and has no such bucket.
	ReasonBucketNotFound = "BucketNotFound"
	// ReasonStoreUnreachable: the store does not answer.
	ReasonStoreUnreachable = "StoreUnreachable"
	// ReasonStoreAccessDenied: the store answers, and refuses the credentials.
	ReasonStoreAccessDenied = "StoreAccessDenied"
	// ReasonTemplateInvalid: the template has a fault that the API server could not see.
	ReasonTemplateInvalid = "TemplateInvalid"
	// ReasonCatalogNotRead: the store was not read yet. Also why StoreReachable is
	// False before the first reading.
	ReasonCatalogNotRead = "CatalogNotRead"
	// ReasonCreatingWorkload: nothing is missing; the Workload is created next.
	ReasonCreatingWorkload = "CreatingWorkload"
)

// Reasons of the Ready condition in phase Queued. On hold it is the reason of
// status.hold; while an admission is given back, the reason why it goes.
const (
	// ReasonWaitingForQuota: Kueue has the job in its queue; the message is Kueue's.
	ReasonWaitingForQuota = "WaitingForQuota"
	// ReasonInadmissible: Kueue cannot admit the job as it is, or its queue is
	// missing or stopped; the message is Kueue's.
	ReasonInadmissible = "Inadmissible"
	// ReasonOnHold: the Workload is still out of the queue and goes back next. While
	// a hold is in force the reason is the hold's own.
	ReasonOnHold = "OnHold"
	// ReasonDeactivated: Kueue or an administrator set the Workload inactive. The
	// job is Stalled until the Workload's spec.active is true again, or it is paused
	// and resumed.
	ReasonDeactivated = "Deactivated"
	// ReasonQueueStopped: the LocalQueue or its ClusterQueue is stopped.
	ReasonQueueStopped = "QueueStopped"
	// ReasonAwaitingAdmissionChecks: quota is reserved, and admission checks are not
	// all ready.
	ReasonAwaitingAdmissionChecks = "AwaitingAdmissionChecks"
	// ReasonRequeued: the job was evicted, gave its quota back and is in the queue
	// again.
	ReasonRequeued = "Requeued"
)

// Reasons of status.hold: why the job is outside the queue, or waits between
// two attempts.
const (
	// ReasonCrashBackOff: the job waits after a failure of the application.
	ReasonCrashBackOff = "CrashBackOff"
	// ReasonDisruptionBackOff: the job waits after a disruption before which no new
	// step was committed.
	ReasonDisruptionBackOff = "DisruptionBackOff"
	// ReasonRestoreBackOff: the job waits after a checkpoint could not be restored.
	ReasonRestoreBackOff = "RestoreBackOff"
	// ReasonStartupDeadline: the attempt's pods were not ready within
	// spec.startup.deadline.
	ReasonStartupDeadline = "StartupDeadline"
	// ReasonNoCompatibleCheckpoint: checkpoints exist and none fits, and
	// spec.resume.onNone is Wait. Also the reason of the condition of this name.
	ReasonNoCompatibleCheckpoint = "NoCompatibleCheckpoint"
	// ReasonAdmissionUnusable: what Kueue admitted is not what the job asked for,
	// or cannot be used.
	ReasonAdmissionUnusable = "AdmissionUnusable"
	// ReasonLaunchRefused: the API server refused the attempt's JobSet. Also the
	// reason of the condition of this name.
	ReasonLaunchRefused = "LaunchRefused"
	// ReasonVerdictPending: an attempt ended, and its pods have to go or the store
	// has to be read before its outcome is known. Also a reason of phases Draining
	// and Starting.
	ReasonVerdictPending = "VerdictPending"
)

// Reasons of the Ready condition between two attempts; none of them is a reason
// of status.hold.
const (
	// ReasonPaused: spec.suspend is true. Phase Paused.
	ReasonPaused = "Paused"
	// ReasonBackOff: the job waits for a back-off that is so short that the quota
	// is kept; status.hold says which. Phase Starting.
	ReasonBackOff = "BackOff"
	// ReasonTemplateChanged: an edit asks for other counts, resources or placement,
	// so the admission is given back and the job queues again: phase Queued. Also
	// why TemplateOutdated is True.
	ReasonTemplateChanged = "TemplateChanged"
)

// Reasons of the Ready condition in phase Starting. An admission that may yet
// become usable is kept for half a minute, with the reason that status.hold gets
// when it does not.
const (
	// ReasonAdmitted: Kueue admitted the job; the attempt is being prepared, the
	// store read for its restore point.
	ReasonAdmitted = "Admitted"
	// ReasonChoosingCheckpoint: the store is read to choose the restore point. It is
	// known inside a decision only; the condition says Admitted.
	ReasonChoosingCheckpoint = "ChoosingCheckpoint"
	// ReasonPodsNotReady: the attempt may start or started, and not all of its pods
	// are ready.
	ReasonPodsNotReady = "PodsNotReady"
	// ReasonRestoring: all pods are ready, and the workers read their checkpoint.
	ReasonRestoring = "Restoring"
)

// Reasons of the Ready condition in phase Running.
const (
	// ReasonTraining: the workers report steps.
	ReasonTraining = "Training"
	// ReasonPodsReady: all pods are ready, and the workers report nothing.
	ReasonPodsReady = "PodsReady"
)

// Reasons of the terminal phases.
const (
	// ReasonFinished: the training called finish, or its pods completed and it does
	// not use the SDK. Phase Succeeded.
	ReasonFinished = "Finished"
	// ReasonFailureBudgetSpent: more than spec.failurePolicy.maxFailures failures in
	// a row committed no higher step. Phase Failed.
	ReasonFailureBudgetSpent = "FailureBudgetSpent"
	// ReasonRestoreFailing: the newest checkpoint and the one before could not be
	// restored. Phase Failed.
	ReasonRestoreFailing = "RestoreFailing"
	// ReasonAttemptsExhausted: attempt 99999 ended; names have no more digits.
	// Phase Failed.
	ReasonAttemptsExhausted = "AttemptsExhausted"
)

// Reasons for which a checkpoint was passed over, in
// status.checkpoint.passedOver.
const (
	// ReasonIncomplete: an object that the manifest names is missing or has another
	// size or ETag.
	ReasonIncomplete = "Incomplete"
	// ReasonQuarantined: a worker proved that its bytes are damaged.
	ReasonQuarantined = "Quarantined"
	// ReasonCorruptManifest: the manifest is no manifest, or contradicts its name.
	ReasonCorruptManifest = "CorruptManifest"
	// ReasonUnknownVersion: the manifest's major version is not known to this
	// controller.
	ReasonUnknownVersion = "UnknownVersion"
	// ReasonOtherBranch: it was written by an attempt that the newest branch does
	// not descend from, or after the step from which the branch went on.
	ReasonOtherBranch = "OtherBranch"
	// ReasonOtherRun: the manifest names another run.
	ReasonOtherRun = "OtherRun"
	// ReasonNotDescendant: it does not descend from spec.resume.from.
	ReasonNotDescendant = "NotDescendant"
	// ReasonIdentityMismatch: it was written with another spec.identity.
	ReasonIdentityMismatch = "IdentityMismatch"
	// ReasonWorldSizeMismatch: it was written by another number of ranks, and
	// spec.resume.compatibility or a component allows no other.
	ReasonWorldSizeMismatch = "WorldSizeMismatch"
	// ReasonLayoutMismatch: its parallel layout cannot be mapped to the new number
	// of ranks.
	ReasonLayoutMismatch = "LayoutMismatch"
	// ReasonComponentIncomplete: a component was left out of it on purpose: the
	// model or the optimizer, or any where spec.resume.compatibility.worldSize is
	// Exact.
	ReasonComponentIncomplete = "ComponentIncomplete"
	// ReasonDeviceMismatch: it was written on other devices.
	ReasonDeviceMismatch = "DeviceMismatch"
	// ReasonRestoreFailed: restoring it failed as often as is tried.
	ReasonRestoreFailed = "RestoreFailed"
	// ReasonNotFound: spec.resume.from names it, and it is not in the store.
	ReasonNotFound = "NotFound"
)

// Reasons of conditions with nothing to report: False because there is nothing,
// or True because all is well.
const (
	// ReasonAsExpected: there is nothing to report.
	ReasonAsExpected = "AsExpected"
	// ReasonSettled: nothing more is expected to happen by itself. Reconciling is
	// False.
	ReasonSettled = "Settled"
	// ReasonNotYielding: the attempt is not asked to end, or none runs.
	ReasonNotYielding = "NotYielding"
	// ReasonNoCheckpoint: the run has no complete checkpoint yet.
	ReasonNoCheckpoint = "NoCheckpoint"
	// ReasonCheckpointComplete: every object of the newest checkpoint is there.
	// CheckpointReady is True.
	ReasonCheckpointComplete = "CheckpointComplete"
	// ReasonCatalogRead: the store was read. StoreReachable is True.
	ReasonCatalogRead = "CatalogRead"
	// ReasonQuotaReserved: Kueue reserved quota. QuotaReserved is True.
	ReasonQuotaReserved = "QuotaReserved"
	// ReasonNoWorkload: nothing is queued. QuotaReserved is False.
	ReasonNoWorkload = "NoWorkload"
	// ReasonTemplateCurrent: the attempt runs what the spec says, or none runs.
	ReasonTemplateCurrent = "TemplateCurrent"
)
