package v1beta1

// Condition types of a ResumableTrainingJob. Every one of them is set from the
// first sync on, False with a reason rather than absent, unless it says
// otherwise.
//
// Ready, Reconciling and Stalled follow kstatus
// (sigs.k8s.io/cli-utils/pkg/kstatus): a job is settled when Ready is True and
// the other two are False.
const (
	// ConditionReady is True while the attempt trains and once the training
	// succeeded. Otherwise it is False, and its reason and message are the ones
	// of the phase: what the job waits for.
	ConditionReady = "Ready"
	// ConditionReconciling is True while something is expected to happen by
	// itself: the job starts, drains, or waits in the queue or for a back-off.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when nothing goes on before a person acts; the
	// message says what to do. Also True in phase Failed.
	ConditionStalled = "Stalled"

	// ConditionQuotaReserved is True while Kueue holds quota for the job. When it
	// is False, the reason is that of the Workload's own condition where it has one,
	// such as Pending or OnHold; else WaitingForQuota, Finished, or NoWorkload where
	// nothing is queued. The message names the Workload, whose condition has Kueue's.
	ConditionQuotaReserved = "QuotaReserved"
	// ConditionYielding is True from the request that an attempt ends until no pod
	// of it is left; the reason is the YieldCause.
	ConditionYielding = "Yielding"
	// ConditionCheckpointReady is True when the branch has a complete checkpoint,
	// status.checkpoint.latest. Whether it fits the shape that is admitted next is
	// another matter: see ConditionNoCompatibleCheckpoint.
	ConditionCheckpointReady = "CheckpointReady"
	// ConditionStoreReachable is True when the newest read of the store succeeded.
	// It is False with reason CatalogNotRead before the first one, and with the
	// failure's reason after one that failed.
	ConditionStoreReachable = "StoreReachable"
	// ConditionTemplateOutdated is True while the attempt runs with an older
	// template than the spec has: the edit applies at the next attempt.
	ConditionTemplateOutdated = "TemplateOutdated"
	// ConditionLaunchRefused is True when the API server refused the attempt's
	// JobSet; the message is the server's.
	ConditionLaunchRefused = "LaunchRefused"
	// ConditionNoCompatibleCheckpoint is True when checkpoints exist and none of
	// them fits; status.checkpoint.passedOver says why for each.
	ConditionNoCompatibleCheckpoint = "NoCompatibleCheckpoint"
)
