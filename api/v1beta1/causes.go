package v1beta1

// Causes for which an attempt is asked to end. They are reasons of the Yielding
// condition, stand in the control document and the ledger, and reach the
// training script. Where Kueue evicts for anything but preemption or
// deactivation the cause is Kueue's own reason (docs/api.md names the usual
// ones), so a reader must accept values that are not in this list.
const (
	// CausePaused: spec.suspend became true.
	CausePaused YieldCause = "Paused"
	// CausePreempted: Kueue gives the quota to another Workload.
	CausePreempted YieldCause = "Preempted"
	// CauseDeleted: the job is being deleted.
	CauseDeleted YieldCause = "Deleted"
	// CauseDisruption: pods end that nobody asked to end.
	CauseDisruption YieldCause = "Disruption"
	// CauseAdmissionLost: the attempt runs on quota that Kueue no longer holds for it.
	CauseAdmissionLost YieldCause = "AdmissionLost"
	// CauseRollback: spec.resume.from names a checkpoint that the running attempt
	// does not descend from.
	CauseRollback YieldCause = "Rollback"
	// CauseStartupDeadline: the pods were not ready within spec.startup.deadline.
	CauseStartupDeadline YieldCause = "StartupDeadline"
	// CauseFinished: the training finished, and pods of it do not end.
	CauseFinished YieldCause = "Finished"

	// CauseDeactivated: the Workload was set inactive. Kueue may add a cause of its
	// own to the reason ("DeactivatedDueTo..."); it is cut off here and stands in the
	// message.
	CauseDeactivated YieldCause = "Deactivated"
)
