package compose

import (
	"encoding/json"
	"time"

	"rtj.dev/rtj/api/v1beta1"
)

// Decision is what should be, and what to do about it.
type Decision struct {
	// Children that should exist. Observed ones that are missing here are to be
	// deleted.
	Children []Child
	// Status of the parent.
	Status *v1beta1.ResumableTrainingJobStatus
	// Patches to carry out after the answer, in this order.
	Patches []Patch
	// ResyncAfter is when to look again if nothing happens; 0: never.
	ResyncAfter time.Duration
	// Catalog is the reading of the store that is wanted.
	Catalog CatalogRead
	// Launch is the JobSet that is wanted and not seen; the edge dry-runs its
	// creation when that lasts for 15 seconds.
	Launch *Child
	// Finalized lets a deleted parent go.
	Finalized bool
	// Rules are the matches of every table, in the order of evaluation.
	Rules []Match
}

// CatalogRead is a wish for a reading of the store.
type CatalogRead struct {
	// NotBefore is the earliest time at which its listing may begin; zero: no
	// reading is wanted.
	NotBefore time.Time
	// Recheck are the checkpoints, by id, that a launch would restore: their
	// completeness is checked again, object by object, before it may.
	Recheck []string
}

// Match is the rule of a table that matched.
type Match struct {
	Table string `json:"table"`
	Rule  string `json:"rule"`
	// Why names the facts that the rule read.
	Why string `json:"why,omitempty"`
}

// Patch is a write that is not the creation, update or deletion of a child.
type Patch struct {
	// Name says what it does: release, requeue, hold, claim, notice,
	// pods-ready, finish, run-id.
	Name string `json:"name"`
	// Target is the object.
	Target Target `json:"target"`
	// Body is a JSON merge patch. It carries the resourceVersion that was seen.
	Body json.RawMessage `json:"body"`
	// NoLivePods, when set, is the LIST: the patch is only made when live lists
	// show no pod that may still run, and no Job that may still make one.
	NoLivePods *NoLivePods `json:"noLivePods,omitempty"`
	// StatusAttempt, when set, must be status.attempt in a live read of the RTJ.
	StatusAttempt *int32 `json:"statusAttempt,omitempty"`
}

// Target is the object that a patch writes.
type Target struct {
	APIVersion  string `json:"apiVersion"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
}

// NoLivePods is the precondition that no pod with the label, whose phase is
// neither Succeeded nor Failed, exists, but for those of forced attempts; and no Job
// with the label that is neither suspended, finished nor being deleted.
type NoLivePods struct {
	Namespace string `json:"namespace"`
	// LabelSelector in the API's syntax; forced attempts are excluded in it.
	LabelSelector string `json:"labelSelector"`
	// FieldSelector of the pods, in the API's syntax.
	FieldSelector string `json:"fieldSelector"`
}
