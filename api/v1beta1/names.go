package v1beta1

// Labels and annotations of RTJ's objects.
const (
	// LabelUID is the UID of the ResumableTrainingJob, on everything that it runs.
	LabelUID = "training.rtj.dev/uid"
	// LabelAttempt is the attempt, on a JobSet, its Jobs and their pods.
	LabelAttempt = "training.rtj.dev/attempt"

	// AnnotationRunID names the run's folder in the store; set once.
	AnnotationRunID = "training.rtj.dev/run-id"
	// AnnotationClaim is the claim of an attempt, on a Workload: JSON
	// {workloadUID, reservedAt, assigned, attempt, jobSetUID, at}.
	AnnotationClaim = "training.rtj.dev/claim"
	// AnnotationShape is the hash of the shape that a Workload's podSets ask for.
	AnnotationShape = "training.rtj.dev/shape"
	// AnnotationReservation is the reservation that a JobSet was built for: JSON
	// {workloadUID, reservedAt, assigned}.
	AnnotationReservation = "training.rtj.dev/reservation"
	// AnnotationRestore is the checkpoint id that an attempt starts from.
	AnnotationRestore = "training.rtj.dev/restore"
	// AnnotationTemplate is the hash of the template that a JobSet was built from.
	AnnotationTemplate = "training.rtj.dev/template"
	// AnnotationStarted is when a JobSet was started; it is set in the same
	// update that unsuspends it, so a JobSet without it never ran.
	AnnotationStarted = "training.rtj.dev/started"
	// AnnotationYield is the yield notice, on the leader pod.
	AnnotationYield = "training.rtj.dev/yield"
)
