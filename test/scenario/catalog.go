package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
)

// Catalog is catalog.yaml: what a reading of the store found.
type Catalog struct {
	// Base is a file of _base/ that this one changes, by JSON merge patch.
	Base string `json:"base,omitempty"`

	ListedAt    time.Time                        `json:"listedAt"`
	Failure     *Failure                         `json:"failure,omitempty"`
	Manifests   []Manifest                       `json:"manifests,omitempty"`
	Attempts    map[int32]*Records               `json:"attempts,omitempty"`
	Quarantined map[string]checkpoint.Quarantine `json:"quarantined,omitempty"`
	// Unread is the number of older manifests that were listed only.
	Unread int `json:"unread,omitempty"`
}

// Failure is a checkpoint.Failure.
type Failure struct {
	Kind    checkpoint.FailureKind `json:"kind"`
	Message string                 `json:"message"`
}

// Manifest is a checkpoint.Manifest; only attempt, step and worldSize are needed.
type Manifest struct {
	Attempt int32 `json:"attempt"`
	Step    int64 `json:"step"`
	// ID is made of attempt and step unless it is given; see [ManifestID].
	ID            string                          `json:"id,omitempty"`
	CommittedAt   time.Time                       `json:"committedAt,omitzero"`
	Defect        *Defect                         `json:"defect,omitempty"`
	Incomplete    string                          `json:"incomplete,omitempty"`
	RunID         string                          `json:"runID,omitempty"`
	Identity      map[string]string               `json:"identity,omitempty"`
	WorldSize     int32                           `json:"worldSize,omitempty"`
	Layout        checkpoint.Layout               `json:"layout,omitzero"`
	Components    map[string]checkpoint.Component `json:"components,omitempty"`
	Objects       int64                           `json:"objects,omitempty"`
	Bytes         int64                           `json:"bytes,omitempty"`
	DeviceProfile string                          `json:"deviceProfile,omitempty"`
	Framework     string                          `json:"framework,omitempty"`
	Format        string                          `json:"format,omitempty"`
	YieldID       int32                           `json:"yieldID,omitempty"`
}

// Defect is a checkpoint.Defect.
type Defect struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Records are the records of one attempt.
type Records struct {
	Start    *checkpoint.Start    `json:"start,omitempty"`
	Progress *checkpoint.Progress `json:"progress,omitempty"`
	Result   *checkpoint.Result   `json:"result,omitempty"`
}

// ManifestID is the id that a manifest has in cases unless it is given: nonce and
// hash are zeros.
func ManifestID(attempt int32, step int64) string {
	return fmt.Sprintf("%06d-%012d-%012d-%016d", attempt, step, 0, 0)
}

// LoadCatalog reads a catalog.yaml. runID is the run of manifests that name none.
// It returns nil if there is no such file: the store was never read.
func LoadCatalog(file, bases, runID string) (*checkpoint.Snapshot, error) {
	value, err := loadCatalog(file, bases)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := Format(value)
	if err != nil {
		return nil, err
	}
	c := &Catalog{}
	if err := decodeStrict(text, c); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c.Snapshot(runID), nil
}

func loadCatalog(file, bases string) (map[string]any, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	value, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	name, ok := value["base"].(string)
	if !ok {
		return value, nil
	}
	base, err := loadCatalog(filepath.Join(bases, name+".yaml"), bases)
	if err != nil {
		return nil, fmt.Errorf("%s: base: %v", file, err)
	}
	delete(value, "base")
	return Merge(base, value), nil
}

// Snapshot is what the hooks get to see.
func (c *Catalog) Snapshot(runID string) *checkpoint.Snapshot {
	s := &checkpoint.Snapshot{ListedAt: c.ListedAt, Quarantined: c.Quarantined, Unread: c.Unread}
	if c.Failure != nil {
		s.Failure = &checkpoint.Failure{Kind: c.Failure.Kind, Message: c.Failure.Message}
	}
	for _, m := range c.Manifests {
		s.Manifests = append(s.Manifests, m.manifest(runID))
	}
	for n, r := range c.Attempts {
		if s.Attempts == nil {
			s.Attempts = map[int32]checkpoint.Records{}
		}
		s.Attempts[n] = r.records(n)
	}
	return s
}

func (m Manifest) manifest(runID string) checkpoint.Manifest {
	if m.ID == "" {
		m.ID = ManifestID(m.Attempt, m.Step)
	}
	n := checkpoint.Manifest{ID: m.ID, Attempt: m.Attempt, Step: m.Step, CommittedAt: m.CommittedAt}
	if m.Defect != nil {
		n.Defect = &checkpoint.Defect{Reason: m.Defect.Reason, Message: m.Defect.Message}
		return n
	}
	n.Incomplete = m.Incomplete
	n.RunID = m.RunID
	if n.RunID == "" {
		n.RunID = runID
	}
	n.Identity, n.WorldSize, n.Layout = m.Identity, m.WorldSize, m.Layout
	n.Components = m.Components
	if n.Components == nil {
		n.Components = map[string]checkpoint.Component{"model": {Reshard: "any", Complete: true}}
	}
	n.Objects, n.Bytes = m.Objects, m.Bytes
	n.DeviceProfile, n.Framework, n.Format, n.YieldID = m.DeviceProfile, m.Framework, m.Format, m.YieldID
	return n
}

// records fills in the attempt, which the key says.
func (r *Records) records(attempt int32) checkpoint.Records {
	if r == nil {
		return checkpoint.Records{}
	}
	if r.Start != nil {
		r.Start.Attempt = attempt
	}
	if r.Progress != nil {
		r.Progress.Attempt = attempt
	}
	if r.Result != nil {
		r.Result.Attempt = attempt
	}
	return checkpoint.Records{Start: r.Start, Progress: r.Progress, Result: r.Result}
}
