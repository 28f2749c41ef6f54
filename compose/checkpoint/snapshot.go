package checkpoint

import (
	"time"
)

// Snapshot is what one reading of a run's metadata found.
type Snapshot struct {
	// ListedAt is when the listing began; zero when the store was never read.
	// Everything that was committed before it is in the snapshot.
	ListedAt time.Time
	// Failure says why the store could not be read; nil when it could. A
	// snapshot with a failure has no other content.
	Failure *Failure
	// Manifests in any order, those that cannot be used included.
	Manifests []Manifest
	// Attempts are the records of each attempt that has any. Progress and Result
	// are read of the newest attempts only.
	Attempts map[int32]Records
	// Quarantined checkpoints by id.
	Quarantined map[string]Quarantine
	// Unread is the number of manifests that are older than those in Manifests
	// and were listed only.
	Unread int
	// Problems are what was found and could not be used, one line each: a record
	// that is no JSON, a file that does not belong there.
	Problems []string
}

// FailureKind says what a person has to do about a store that cannot be read.
type FailureKind string

const (
	// Unreachable: no answer, or a server error; it may pass.
	Unreachable FailureKind = "StoreUnreachable"
	// AccessDenied: the credentials are refused.
	AccessDenied FailureKind = "StoreAccessDenied"
	// BucketNotFound: the bucket of storage.uri does not exist.
	BucketNotFound FailureKind = "BucketNotFound"
	// SecretNotFound: the Secret with the credentials does not exist.
	SecretNotFound FailureKind = "SecretNotFound"
	// SecretIncomplete: the Secret lacks a key.
	SecretIncomplete FailureKind = "SecretIncomplete"
)

// Failure is why the store could not be read. Message holds no secret.
type Failure struct {
	Kind    FailureKind
	Message string
}

// Readable reports whether the snapshot is an answer of the store.
func (s *Snapshot) Readable() bool {
	return s != nil && s.Failure == nil && !s.ListedAt.IsZero()
}

// HasRecords reports whether the attempt left any record or manifest, readable
// or not.
func (s *Snapshot) HasRecords(attempt int32) bool {
	if s == nil {
		return false
	}
	if _, ok := s.Attempts[attempt]; ok {
		return true
	}
	for i := range s.Manifests {
		if s.Manifests[i].Attempt == attempt {
			return true
		}
	}
	return false
}

// HighestAttempt is the largest attempt number in the store; 0 when there is none.
func (s *Snapshot) HighestAttempt() int32 {
	var n int32
	if s == nil {
		return 0
	}
	for a := range s.Attempts {
		n = max(n, a)
	}
	for i := range s.Manifests {
		n = max(n, s.Manifests[i].Attempt)
	}
	return n
}

// Manifest is one committed checkpoint, usable or not.
type Manifest struct {
	// ID is the file name without ".json".
	ID      string
	Attempt int32
	Step    int64
	// CommittedAt is the store's time; information only.
	CommittedAt time.Time
	// Defect says why the manifest itself cannot be used; nil when it can. With
	// a defect only ID, Attempt, Step and CommittedAt are set.
	Defect *Defect
	// Incomplete says which object is missing or differs; empty when every
	// object was listed with its size and ETag.
	Incomplete string
	// CheckedAt is when the listing began that Incomplete rests on; zero when
	// there was none. It is as late as ListedAt where a check was asked for.
	CheckedAt time.Time

	RunID         string
	Identity      map[string]string
	WorldSize     int32
	Layout        Layout
	Components    map[string]Component
	Objects       int64
	Bytes         int64
	DeviceProfile string
	Framework     string
	Format        string
	YieldID       int32

	// Indexes are the index objects. A Snapshot leaves them out: they only serve
	// to check completeness.
	Indexes []IndexRef
}

// Defect is what is wrong with a manifest: Reason is CorruptManifest,
// UnknownVersion or OtherRun. Message names the manifest.
type Defect struct {
	Reason  string
	Message string
}

// Layout is the parallel layout in ranks; GlobalBatch in samples.
type Layout struct {
	DP           int32 `json:"dp"`
	TP           int32 `json:"tp"`
	PP           int32 `json:"pp"`
	CP           int32 `json:"cp"`
	EP           int32 `json:"ep"`
	GlobalBatch  int64 `json:"globalBatch"`
	Accumulation int64 `json:"accumulation"`
}

// Component is one part of the training state.
type Component struct {
	// Reshard is none, dp or any.
	Reshard string `json:"reshard"`
	// Complete is false for a component that was left out on purpose.
	Complete bool `json:"complete"`
}

// Records are the records of one attempt; each is nil when it is absent or
// unreadable.
type Records struct {
	Start    *Start
	Progress *Progress
	Result   *Result
}

// Start is what an attempt started from.
type Start struct {
	Attempt   int32     `json:"attempt"`
	Restore   *Restore  `json:"restore"`
	WorldSize int32     `json:"worldSize"`
	Layout    Layout    `json:"layout"`
	StartedAt time.Time `json:"startedAt"`
}

// Restore is a restore point.
type Restore struct {
	Checkpoint string `json:"checkpoint"`
	Attempt    int32  `json:"attempt"`
	Step       int64  `json:"step"`
}

// Progress is what the workers report while they run.
type Progress struct {
	Attempt        int32      `json:"attempt"`
	Activity       string     `json:"activity"`
	Step           int64      `json:"step"`
	TotalSteps     *int64     `json:"totalSteps"`
	StepsPerSecond *float64   `json:"stepsPerSecond"`
	FirstStepAt    *time.Time `json:"firstStepAt"`
	RestoreSeconds *float64   `json:"restoreSeconds"`
	LastSave       *Save      `json:"lastSave"`
	Yield          *struct {
		ID             int32      `json:"id"`
		AcknowledgedAt *time.Time `json:"acknowledgedAt"`
		AgreedStep     *int64     `json:"agreedStep"`
	} `json:"yield"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// Save is a save that was committed.
type Save struct {
	Checkpoint string  `json:"checkpoint"`
	Step       int64   `json:"step"`
	Seconds    float64 `json:"seconds"`
	Bytes      int64   `json:"bytes"`
}

// Outcomes that a result record may have.
const (
	ResultFinished         = "finished"
	ResultYielded          = "yielded"
	ResultYieldNotServiced = "yieldNotServiced"
	ResultRestoreFailed    = "restoreFailed"
	ResultFailed           = "failed"
)

// Result is how an attempt ended by its own account.
type Result struct {
	Attempt        int32           `json:"attempt"`
	Outcome        string          `json:"outcome"`
	Step           int64           `json:"step"`
	Checkpoint     string          `json:"checkpoint"`
	LostSteps      int64           `json:"lostSteps"`
	Message        string          `json:"message"`
	RestoreFailure *RestoreFailure `json:"restoreFailure"`
	EndedAt        time.Time       `json:"endedAt"`
}

// RestoreFailure is why a checkpoint could not be restored.
type RestoreFailure struct {
	Checkpoint string `json:"checkpoint"`
	Cause      string `json:"cause"`
	Object     string `json:"object"`
	Rank       int32  `json:"rank"`
	Node       string `json:"node"`
}

// Quarantine is a checkpoint that must not be restored.
type Quarantine struct {
	Checkpoint string    `json:"checkpoint"`
	Cause      string    `json:"cause"`
	Object     string    `json:"object"`
	Rank       int32     `json:"rank"`
	Node       string    `json:"node"`
	Message    string    `json:"message"`
	RecordedAt time.Time `json:"recordedAt"`
}
