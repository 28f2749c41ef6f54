package checkpoint

// Query is what an attempt needs of the checkpoint that it starts from.
type Query struct {
	// RunID is the run whose checkpoints are read.
	RunID string
	// WorldSize is the number of ranks that were admitted; 0 does not compare it.
	WorldSize int32
	// Identity must be equal in the manifest, key by key; nil does not compare it.
	Identity map[string]string
	// ExactWorldSize refuses any resharding.
	ExactWorldSize bool
	// DeviceProfile must be equal in the manifest; empty does not compare it.
	DeviceProfile string
	// From restricts to this checkpoint and its descendants; empty does not.
	From string
	// Avoid are checkpoints not to try, by id, with the message for a person.
	Avoid map[string]string
}

// Choice is the answer to a Query.
type Choice struct {
	// Selected is the restore point; nil when nothing fits.
	Selected *Manifest
	// Latest is the newest complete, unquarantined candidate of the branch,
	// whatever shape it needs; nil when there is none.
	Latest *Manifest
	// Empty reports that the run has no manifest at all: start fresh.
	Empty bool
	// PassedOver are the manifests that were not selected although they are
	// newer than Selected or on another branch, newest first (by attempt, then
	// step), each with a reason.
	PassedOver []PassedOver
}

// PassedOver is a manifest that was not selected.
type PassedOver struct {
	ID      string
	Attempt int32
	Step    int64
	Reason  string
	Message string
}
