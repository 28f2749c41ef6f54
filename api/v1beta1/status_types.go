package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Phase is where a job is in its life. It is derived from what is observed;
// only Succeeded and Failed are remembered, and never left.
//
// +kubebuilder:validation:Enum=Pending;Queued;Starting;Running;Draining;Paused;Succeeded;Failed
type Phase string

const (
	// PhasePending: nothing may be queued yet; the Ready condition says what is missing.
	PhasePending Phase = "Pending"
	// PhaseQueued: a Workload waits for Kueue, or is on hold.
	PhaseQueued Phase = "Queued"
	// PhaseStarting: admitted, and no attempt trains yet or again.
	PhaseStarting Phase = "Starting"
	// PhaseRunning: the attempt trains.
	PhaseRunning Phase = "Running"
	// PhaseDraining: the attempt must end, and pods of it are left or its quota is still held.
	PhaseDraining Phase = "Draining"
	// PhasePaused: suspend is true, nothing runs and no quota is held.
	PhasePaused Phase = "Paused"
	// PhaseSucceeded: the training finished.
	PhaseSucceeded Phase = "Succeeded"
	// PhaseFailed: the failure budget is spent, or no checkpoint can be restored.
	PhaseFailed Phase = "Failed"
)

// Terminal reports whether the phase is never left.
func (p Phase) Terminal() bool { return p == PhaseSucceeded || p == PhaseFailed }

// Bounds of the lists in status.
const (
	MaxLedgerEntries   = 20
	MaxPassedOver      = 16
	MaxForced          = 16
	MaxRestoreFailures = 16
)

// ResumableTrainingJobStatus is what was observed and what must be remembered.
type ResumableTrainingJobStatus struct {
	// observedGeneration is the generation that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase in short; the conditions say why.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// conditions follow kstatus: Ready, Reconciling, Stalled, and those of the domain.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// runID names the folder of this run in the store.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	RunID string `json:"runID,omitempty"`

	// attempt is the number of the newest claimed attempt; 0 before the first.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// workloadNumber is the k of the Workload <name>-w<k>.
	// +optional
	WorkloadNumber int32 `json:"workloadNumber,omitempty"`

	// workers is ready and wanted pods, as "3/4".
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Workers string `json:"workers,omitempty"`

	// preemptions counts attempts that were asked to end because Kueue preempted
	// them (cause Preempted), and ended for that (outcome Yielded). Other evictions
	// are not counted.
	// +optional
	Preemptions int32 `json:"preemptions,omitempty"`

	// admission is what Kueue admitted and the current attempt was built from.
	// +optional
	Admission *AdmissionStatus `json:"admission,omitempty"`

	// checkpoint is what the store holds for this run.
	// +optional
	Checkpoint CheckpointStatus `json:"checkpoint,omitempty"`

	// progress is what the workers reported last.
	// +optional
	Progress *ProgressStatus `json:"progress,omitempty"`

	// failures without progress, as the failure policy counts them.
	// +optional
	Failures FailureStatus `json:"failures,omitempty"`

	// hold is why the job waits outside the queue or between two attempts, and
	// until when. One that is over stays here until an attempt trains, so that the
	// next one for the same reason is longer.
	// +optional
	Hold *HoldStatus `json:"hold,omitempty"`

	// yield is the request that the current attempt ends.
	// +optional
	Yield *YieldStatus `json:"yield,omitempty"`

	// lastEnd is the end of the newest attempt that ended.
	// +optional
	LastEnd *AttemptEnd `json:"lastEnd,omitempty"`

	// podsEnding is since when the running attempt shows pods terminating that
	// nobody asked to end.
	// +optional
	PodsEnding *PodsEnding `json:"podsEnding,omitempty"`

	// forced are attempts that were given up while pods were still terminating.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	Forced []ForcedAttempt `json:"forced,omitempty"`

	// restoreFailures counts failed restores of each checkpoint.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	RestoreFailures []RestoreFailure `json:"restoreFailures,omitempty"`

	// ledger is the account of the newest attempts, oldest first.
	// +optional
	// +kubebuilder:validation:MaxItems=20
	Ledger []LedgerEntry `json:"ledger,omitempty"`

	// totals add up the attempts that left the ledger.
	// +optional
	Totals LedgerTotals `json:"totals,omitempty"`
}

// AdmissionStatus is what Kueue admitted.
type AdmissionStatus struct {
	// workload is the Workload's name.
	// +kubebuilder:validation:MaxLength=253
	Workload string `json:"workload"`
	// clusterQueue that the quota is from.
	// +kubebuilder:validation:MaxLength=253
	ClusterQueue string `json:"clusterQueue"`
	// reservedAt is when the quota was reserved.
	ReservedAt metav1.Time `json:"reservedAt"`
	// worldSize is the number of ranks that fit.
	WorldSize int32 `json:"worldSize"`
	// podSets as admitted.
	// +kubebuilder:validation:MaxItems=8
	PodSets []AdmittedPodSet `json:"podSets,omitempty"`
}

// AdmittedPodSet is one podSet of an admission.
type AdmittedPodSet struct {
	// name of the podSet: the replicatedJob.
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// count of pods admitted.
	Count int32 `json:"count"`
	// flavor by resource.
	// +kubebuilder:validation:MaxProperties=16
	Flavors map[string]string `json:"flavors,omitempty"`
}

// CheckpointStatus is what the store holds for this run.
type CheckpointStatus struct {
	// latest is the newest complete checkpoint of the branch.
	// +optional
	Latest *CheckpointRef `json:"latest,omitempty"`
	// restoredFrom is the restore point of the current attempt; absent when it
	// started fresh.
	// +optional
	RestoredFrom *CheckpointRef `json:"restoredFrom,omitempty"`
	// passedOver are checkpoints that were not selected, newest first, with the reason.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	PassedOver []PassedOver `json:"passedOver,omitempty"`
}

// CheckpointRef names one checkpoint.
type CheckpointRef struct {
	// id is the checkpoint id, the manifest's file name.
	// +kubebuilder:validation:MaxLength=128
	ID string `json:"id"`
	// attempt that wrote it.
	Attempt int32 `json:"attempt"`
	// step is the number of optimizer steps that it holds.
	Step int64 `json:"step"`
	// committedAt is the store's time of the manifest.
	// +optional
	CommittedAt *metav1.Time `json:"committedAt,omitempty"`
	// verified is how far its bytes are known to be good.
	// +optional
	Verified Verified `json:"verified,omitempty"`
}

// Verified is how far a checkpoint's bytes are known to be good.
// +kubebuilder:validation:Enum=listed;read;restored
type Verified string

const (
	// VerifiedListed: every object is there with its size and ETag.
	VerifiedListed Verified = "listed"
	// VerifiedRead: a worker read it and every checksum matched.
	VerifiedRead Verified = "read"
	// VerifiedRestored: an attempt that started from it made a step.
	VerifiedRestored Verified = "restored"
)

// PassedOver is a checkpoint that was not selected.
type PassedOver struct {
	// id is the checkpoint id.
	// +kubebuilder:validation:MaxLength=128
	ID string `json:"id"`
	// reason is a word that docs/api.md lists.
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`
	// message says it in a sentence.
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// ProgressStatus is what the workers reported last. It is mirrored at most once
// a minute and at transitions.
type ProgressStatus struct {
	// attempt that reported it.
	Attempt int32 `json:"attempt"`
	// step is the number of optimizer steps applied.
	Step int64 `json:"step"`
	// totalSteps of the whole training, where the script said it.
	// +optional
	TotalSteps *int64 `json:"totalSteps,omitempty"`
	// stepsPerSecond as a decimal number.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	StepsPerSecond string `json:"stepsPerSecond,omitempty"`
	// eta is when the last step will be done at this rate.
	// +optional
	ETA *metav1.Time `json:"eta,omitempty"`
	// updatedAt is when the workers reported it.
	// +optional
	UpdatedAt *metav1.Time `json:"updatedAt,omitempty"`
}

// FailureStatus is what the failure budget remembers.
type FailureStatus struct {
	// withoutProgress is the number of application failures since the last
	// checkpoint of a higher step.
	// +optional
	WithoutProgress int32 `json:"withoutProgress,omitempty"`
	// disruptions without progress; they are not counted against the budget,
	// but they back off.
	// +optional
	Disruptions int32 `json:"disruptions,omitempty"`
	// bestStep is the highest step that was committed.
	// +optional
	BestStep int64 `json:"bestStep,omitempty"`
}

// HoldStatus is why the job waits outside the queue or between two attempts.
type HoldStatus struct {
	// reason is a word that docs/api.md lists.
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`
	// message says it in a sentence, and what to do.
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// since when the job is held for this reason.
	Since metav1.Time `json:"since"`
	// until is when the job may go on, or, where the reason lies in the store, from
	// when on a reading may lift the hold. Every hold has it.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
	// count of holds for this reason in a row; the wait grows with it.
	Count int32 `json:"count,omitempty"`
}

// YieldStatus is the request that an attempt ends. The control document is the
// original; this is its copy.
type YieldStatus struct {
	// attempt that is asked to end.
	Attempt int32 `json:"attempt"`
	// cause that came first.
	Cause YieldCause `json:"cause"`
	// issuedAt is when it was asked.
	IssuedAt metav1.Time `json:"issuedAt"`
	// deadline at which the workers are stopped.
	Deadline metav1.Time `json:"deadline"`
	// suspendedAt is when the workers were seen to be stopped: their JobSet was suspended.
	// +optional
	SuspendedAt *metav1.Time `json:"suspendedAt,omitempty"`
}

// YieldCause is why an attempt must end.
// +kubebuilder:validation:MaxLength=64
type YieldCause string

// AttemptEnd is the end of an attempt.
type AttemptEnd struct {
	// attempt that ended.
	Attempt int32 `json:"attempt"`
	// at is when the end was observed. Readings of the store that began earlier
	// do not count as having seen all that the attempt committed.
	At metav1.Time `json:"at"`
	// observedBy is the process that observed it.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	ObservedBy string `json:"observedBy,omitempty"`
	// outcome, once the store was read after the end.
	// +optional
	Outcome Outcome `json:"outcome,omitempty"`
}

// Outcome is how an attempt ended.
// +kubebuilder:validation:MaxLength=64
type Outcome string

const (
	// OutcomeFinished: the training called finish.
	OutcomeFinished Outcome = "Finished"
	// OutcomeYielded: it ended because it was asked to.
	OutcomeYielded Outcome = "Yielded"
	// OutcomeDisrupted: it ended unasked, and not by its own fault.
	OutcomeDisrupted Outcome = "Disrupted"
	// OutcomeRestoreFailed: it could not restore its checkpoint.
	OutcomeRestoreFailed Outcome = "RestoreFailed"
	// OutcomeCompletedWithoutResult: it exited 0 and never called finish.
	OutcomeCompletedWithoutResult Outcome = "CompletedWithoutResult"
	// OutcomeFailed: the application failed.
	OutcomeFailed Outcome = "Failed"
)

// PodsEnding is since when a running attempt shows terminating pods.
type PodsEnding struct {
	// attempt that shows them.
	Attempt int32 `json:"attempt"`
	// since when it does.
	Since metav1.Time `json:"since"`
}

// ForcedAttempt is an attempt that was given up while pods were terminating.
type ForcedAttempt struct {
	// attempt that was given up.
	Attempt int32 `json:"attempt"`
	// at is when; it counts as the end of the attempt.
	At metav1.Time `json:"at"`
}

// RestoreFailure counts failed restores of one checkpoint.
type RestoreFailure struct {
	// checkpoint is a checkpoint id.
	// +kubebuilder:validation:MaxLength=128
	Checkpoint string `json:"checkpoint"`
	// count of attempts that failed to restore it.
	Count int32 `json:"count"`
	// lastAttempt that was counted.
	LastAttempt int32 `json:"lastAttempt"`
	// message of the newest failure.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// LedgerEntry is the account of one attempt. Times are when the controller
// observed the event.
type LedgerEntry struct {
	// attempt is its number.
	Attempt int32 `json:"attempt"`
	// worldSize is its number of ranks.
	WorldSize int32 `json:"worldSize,omitempty"`
	// restoredFrom is a checkpoint id; empty when it started fresh.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	RestoredFrom string `json:"restoredFrom,omitempty"`
	// restoredStep is the step of that checkpoint.
	// +optional
	RestoredStep int64 `json:"restoredStep,omitempty"`
	// admittedAt is when Kueue reserved the quota that it ran on.
	// +optional
	AdmittedAt *metav1.Time `json:"admittedAt,omitempty"`
	// claimedAt is when its claim was seen to stand, to the microsecond. The attempt
	// starts when a reading of the store that began later confirms what it restores. The
	// first attempt has none: there is nothing to confirm.
	// +optional
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:MaxLength=64
	ClaimedAt string `json:"claimedAt,omitempty"`
	// startedAt is when its JobSet was started.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// readyAt is when all its pods were ready.
	// +optional
	ReadyAt *metav1.Time `json:"readyAt,omitempty"`
	// firstStepAt is when it made its first new step, by its own record.
	// +optional
	FirstStepAt *metav1.Time `json:"firstStepAt,omitempty"`
	// yieldAskedAt is when it was asked to end.
	// +optional
	YieldAskedAt *metav1.Time `json:"yieldAskedAt,omitempty"`
	// yieldCause is why.
	// +optional
	YieldCause YieldCause `json:"yieldCause,omitempty"`
	// acknowledgedAt is when the workers knew, by their own record.
	// +optional
	AcknowledgedAt *metav1.Time `json:"acknowledgedAt,omitempty"`
	// committedAt is the time of its newest checkpoint.
	// +optional
	CommittedAt *metav1.Time `json:"committedAt,omitempty"`
	// committedStep is the step of its newest checkpoint.
	// +optional
	CommittedStep *int64 `json:"committedStep,omitempty"`
	// lastStep is the last step that it is known to have applied.
	// +optional
	LastStep *int64 `json:"lastStep,omitempty"`
	// stoppedAt is when no pod of it was left.
	// +optional
	StoppedAt *metav1.Time `json:"stoppedAt,omitempty"`
	// releasedAt is when its quota was given back.
	// +optional
	ReleasedAt *metav1.Time `json:"releasedAt,omitempty"`
	// outcome is how it ended.
	// +optional
	Outcome Outcome `json:"outcome,omitempty"`
	// message says more about the outcome.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// lostSteps were applied and not in a committed checkpoint when it ended.
	// +optional
	LostSteps *int64 `json:"lostSteps,omitempty"`
}

// LedgerTotals add up the attempts that left the ledger.
type LedgerTotals struct {
	// attempts that left the ledger.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// lostSteps of those attempts.
	// +optional
	LostSteps int64 `json:"lostSteps,omitempty"`
	// runSeconds is the time from their start to their stop.
	// +optional
	RunSeconds int64 `json:"runSeconds,omitempty"`
}
