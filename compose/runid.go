package compose

import (
	"cmp"
	"strings"

	"rtj.dev/rtj/api/v1beta1"
)

// RunID names the run's folder in the store: the annotation, else status, else
// the UID. A copy of the job on another cluster has the annotation, and so finds
// its checkpoints. An annotation that cannot be a folder's name counts as none.
func RunID(parent *v1beta1.ResumableTrainingJob) string {
	return cmp.Or(annotatedRunID(parent), parent.Status.RunID, string(parent.UID))
}

// maxRunID is the longest run id that status has room for, in bytes.
const maxRunID = 64

func annotatedRunID(parent *v1beta1.ResumableTrainingJob) string {
	id := parent.Annotations[v1beta1.AnnotationRunID]
	foreign := func(r rune) bool {
		return r != '-' && r != '_' && r != '.' && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z')
	}
	if len(id) > maxRunID || strings.Trim(id, ".") == "" || strings.ContainsFunc(id, foreign) {
		return ""
	}
	return id
}

func (s *situation) runID() string { return RunID(s.Parent) }

// runIDPatch sets the annotation once.
func (s *situation) runIDPatch() *Patch {
	if s.deleting || s.terminal() || annotatedRunID(s.Parent) != "" {
		return nil
	}
	target := rtjTarget
	target.Namespace, target.Name = s.Parent.Namespace, s.Parent.Name
	return &Patch{Name: "run-id", Target: target, Body: annotate(s.Parent.UID, v1beta1.AnnotationRunID, s.runID())}
}
