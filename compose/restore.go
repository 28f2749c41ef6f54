package compose

import (
	"fmt"
	"strings"

	"rtj.dev/rtj/api/v1beta1"
	"rtj.dev/rtj/compose/checkpoint"
)

// choice is a choice of a restore point for one world size.
type choice struct {
	worldSize int32
	checkpoint.Choice
}

// choose selects the restore point for the shape that was admitted; while none
// is, for the shape that the template asks for.
func (s *situation) choose() checkpoint.Choice {
	size := s.worldSize()
	if s.asked != nil && s.asked.worldSize == size {
		return s.asked.Choice
	}
	query := checkpoint.Query{
		RunID:          s.runID(),
		WorldSize:      size,
		ExactWorldSize: s.spec.Resume.Compatibility.WorldSize == v1beta1.WorldSizeExact,
		From:           s.spec.Resume.From,
		Avoid:          s.givenUpRestores(),
	}
	if s.spec.Resume.Compatibility.Identity != v1beta1.IdentityIgnore {
		query.Identity = declaredIdentity(s.spec.Identity)
	}
	s.asked = &choice{worldSize: size, Choice: checkpoint.Select(s.Catalog, query)}
	return s.asked.Choice
}

// declaredIdentity is spec.identity as workers write it into manifests.
func declaredIdentity(i v1beta1.Identity) map[string]string {
	if i.CodeVersion == "" && len(i.Labels) == 0 {
		return nil
	}
	declared := make(map[string]string, len(i.Labels)+1)
	for key, value := range i.Labels {
		declared[key] = value
	}
	if i.CodeVersion != "" {
		declared["codeVersion"] = i.CodeVersion
	}
	return declared
}

// noneFits reports that checkpoints exist, none of them can be resumed, and the
// user has not said to start afresh.
func (s *situation) noneFits() bool {
	c := s.choose()
	return c.Selected == nil && (!c.Empty || s.spec.Resume.From != "") && s.spec.Resume.OnNone != v1beta1.OnNoneStartFresh
}

// noneFitsMessage names each checkpoint that was passed over and what to do.
func (s *situation) noneFitsMessage() string {
	if from := s.spec.Resume.From; from != "" && s.fromIsUnknown() {
		return fmt.Sprintf("spec.resume.from is %s, and the run has no checkpoint of this id; correct it, or remove the field", from)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "no checkpoint can be resumed with %d ranks", s.worldSize())
	if from := s.spec.Resume.From; from != "" {
		fmt.Fprintf(&b, " from %s", from)
	}
	for i, p := range s.choose().PassedOver {
		if i == 3 {
			fmt.Fprintf(&b, "; and %d more in status.checkpoint.passedOver", len(s.choose().PassedOver)-i)
			break
		}
		fmt.Fprintf(&b, "; %s: %s", p.ID, p.Message)
	}
	b.WriteString("; to start at step 0 beside them set spec.resume.onNone to StartFresh")
	return clip(b.String(), 1024)
}

func (s *situation) fromIsUnknown() bool {
	for _, p := range s.choose().PassedOver {
		if p.Reason == checkpoint.ReasonNotFound {
			return true
		}
	}
	return false
}

// recordCheckpoint brings what the store holds into status.
func (s *situation) recordCheckpoint() {
	if !s.Catalog.Readable() {
		return
	}
	c := s.choose()
	s.next.Checkpoint.PassedOver = passedOver(c)
	s.next.Checkpoint.Latest = nil
	if c.Latest != nil {
		s.next.Checkpoint.Latest = s.reference(c.Latest)
	}
}

func passedOver(c checkpoint.Choice) []v1beta1.PassedOver {
	var list []v1beta1.PassedOver
	for _, p := range c.PassedOver[:min(len(c.PassedOver), v1beta1.MaxPassedOver)] {
		list = append(list, v1beta1.PassedOver{ID: clip(p.ID, maxID), Reason: p.Reason, Message: clip(p.Message, 512)})
	}
	return list
}

func (s *situation) reference(m *checkpoint.Manifest) *v1beta1.CheckpointRef {
	ref := &v1beta1.CheckpointRef{ID: m.ID, Attempt: m.Attempt, Step: m.Step, Verified: s.verified(m.ID)}
	if !m.CommittedAt.IsZero() {
		ref.CommittedAt = timePtr(m.CommittedAt)
	}
	return ref
}

// verified: an attempt that started from the checkpoint and made a step has
// restored it; one that finished restoring has read it.
func (s *situation) verified(id string) v1beta1.Verified {
	best := v1beta1.VerifiedListed
	for _, r := range s.Catalog.Attempts {
		if r.Start == nil || r.Start.Restore == nil || r.Start.Restore.Checkpoint != id || r.Progress == nil {
			continue
		}
		if r.Progress.FirstStepAt != nil {
			return v1beta1.VerifiedRestored
		}
		if r.Progress.RestoreSeconds != nil {
			best = v1beta1.VerifiedRead
		}
	}
	return best
}
