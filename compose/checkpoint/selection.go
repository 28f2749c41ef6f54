package checkpoint

import (
	"cmp"
	"fmt"
	"slices"
)

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
	// From restricts to this checkpoint and its descendants: those of attempts
	// whose chain of restore points goes through exactly it. Later checkpoints of
	// its own attempt are none, so this rolls back, and stays right after
	// progress. Empty does not restrict.
	From string
	// Avoid are checkpoints not to try, by id, with the message for a person.
	Avoid map[string]string
}

// Choice is the answer to a Query. Its pointers lead into the Snapshot.
type Choice struct {
	// Selected is the restore point; nil when nothing fits.
	Selected *Manifest
	// Latest is the newest complete, unquarantined candidate of the branch,
	// whatever shape it needs; nil when there is none.
	Latest *Manifest
	// Empty reports that the run has no manifest at all, and that none was asked
	// for by Query.From: start fresh. Never of an unreadable store.
	Empty bool
	// PassedOver are the manifests that were not selected although they are
	// newer than Selected or on another branch, newest first (by attempt, then
	// step), each with a reason. A Query.From that does not exist comes first.
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

// maxMessage is the longest message of a PassedOver, in bytes.
const maxMessage = 512

// Select chooses the restore point of the next attempt: of the candidates of
// the newest branch the newest one, by attempt and step, that is complete, not
// quarantined, not to be avoided and fits. It decides nothing when the snapshot
// is not readable.
func Select(s *Snapshot, q Query) Choice {
	var c Choice
	if !s.Readable() {
		return c
	}
	c.Empty = len(s.Manifests) == 0 && s.Unread == 0 && q.From == ""

	var room [64]int32
	order := newestFirst(s.Manifests, room[:0])
	b := newestBranch(s, q, order)
	if q.From != "" && !b.fromExists {
		c.PassedOver = append(c.PassedOver, notFound(q.From))
	}
	for _, i := range order {
		m := &s.Manifests[i]
		reason, message := b.place(m)
		if reason == "" {
			if c.Selected != nil {
				continue
			}
			if reason, message = condemned(s, q, m); reason == "" {
				if c.Latest == nil {
					c.Latest = m
				}
				if reason, message = misfit(q, m); reason == "" {
					c.Selected = m
					continue
				}
			}
		}
		// What is wrong with it says more than where it stands, and stays true once
		// the branch went on without it.
		if fault, why := condemned(s, q, m); fault != "" {
			reason, message = fault, why
		}
		c.PassedOver = append(c.PassedOver, PassedOver{
			ID: m.ID, Attempt: m.Attempt, Step: m.Step, Reason: reason, Message: clip(message, maxMessage),
		})
	}
	return c
}

// newestFirst orders by attempt, step and id, the largest first. Saves of the
// same step differ only in the id; its order is arbitrary but always the same.
func newestFirst(manifests []Manifest, order []int32) []int32 {
	for i := range manifests {
		order = append(order, int32(i))
	}
	slices.SortFunc(order, func(i, j int32) int {
		a, b := &manifests[i], &manifests[j]
		switch {
		case a.Attempt != b.Attempt:
			return cmp.Compare(b.Attempt, a.Attempt)
		case a.Step != b.Step:
			return cmp.Compare(b.Step, a.Step)
		}
		return cmp.Compare(b.ID, a.ID)
	})
	return order
}

// condemned says why a candidate can be restored by nobody; no reason means
// that it is sound.
func condemned(s *Snapshot, q Query, m *Manifest) (reason, message string) {
	if m.Defect != nil {
		return m.Defect.Reason, m.Defect.Message
	}
	if otherRun(q, m) {
		return ReasonOtherRun, fmt.Sprintf("it is of run %s, this is run %s", m.RunID, q.RunID)
	}
	if record, ok := s.Quarantined[m.ID]; ok {
		return ReasonQuarantined, record.describe(m.ID)
	}
	if m.Incomplete != "" {
		return ReasonIncomplete, m.Incomplete
	}
	return "", ""
}

// otherRun reports whether the manifest names another run than the query.
func otherRun(q Query, m *Manifest) bool {
	if m.Defect != nil {
		return m.Defect.Reason == ReasonOtherRun
	}
	return q.RunID != "" && m.RunID != q.RunID
}

func (r Quarantine) describe(id string) string {
	text := "quarantined"
	if r.Cause != "" {
		text = r.Cause
	}
	if r.Object != "" {
		text += " of " + r.Object
	}
	if r.Node != "" {
		text += fmt.Sprintf(", seen by rank %d on node %s", r.Rank, r.Node)
	}
	if r.Message != "" {
		text += ": " + clip(r.Message, 200)
	}
	return text + "; deleting quarantine/" + id + ".json lifts it"
}

func notFound(from string) PassedOver {
	p := PassedOver{ID: clip(from, 128), Reason: ReasonNotFound}
	attempt, step, _, _, err := ParseID(from)
	if err != nil {
		p.Message = "spec.resume.from: " + err.Error()
		return p
	}
	p.Attempt, p.Step = attempt, step
	p.Message = "spec.resume.from: the run has no manifest of this id"
	return p
}
