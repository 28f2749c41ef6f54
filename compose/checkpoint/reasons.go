package checkpoint

// Reasons why a checkpoint is passed over. The texts are those of the API.
const (
	// ReasonIncomplete: an object that the manifest names is missing or differs.
	ReasonIncomplete string = "Incomplete"
	// ReasonQuarantined: a worker proved that its bytes are damaged.
	ReasonQuarantined string = "Quarantined"
	// ReasonCorruptManifest: the manifest is no manifest, or contradicts its name.
	ReasonCorruptManifest string = "CorruptManifest"
	// ReasonUnknownVersion: the manifest's major version is not known.
	ReasonUnknownVersion string = "UnknownVersion"
	// ReasonOtherBranch: the newest branch does not go through it.
	ReasonOtherBranch string = "OtherBranch"
	// ReasonOtherRun: the manifest names another run.
	ReasonOtherRun string = "OtherRun"
	// ReasonNotDescendant: it is neither Query.From nor a descendant of it.
	ReasonNotDescendant string = "NotDescendant"
	// ReasonNotFound: no manifest has the id of Query.From.
	ReasonNotFound string = "NotFound"
	// ReasonIdentityMismatch: it was written with another identity.
	ReasonIdentityMismatch string = "IdentityMismatch"
	// ReasonWorldSizeMismatch: it was written by another number of ranks, and it or
	// the query allows no other.
	ReasonWorldSizeMismatch string = "WorldSizeMismatch"
	// ReasonLayoutMismatch: its parallel layout cannot be mapped to the new number
	// of ranks.
	ReasonLayoutMismatch string = "LayoutMismatch"
	// ReasonComponentIncomplete: a component was left out of it on purpose.
	ReasonComponentIncomplete string = "ComponentIncomplete"
	// ReasonDeviceMismatch: it was written on other devices.
	ReasonDeviceMismatch string = "DeviceMismatch"
	// ReasonRestoreFailed: restoring it failed as often as is tried.
	ReasonRestoreFailed string = "RestoreFailed"
)
