package compose

import "rtj.dev/rtj/api/v1beta1"

// runID names the run's folder in the store: the annotation, else status, else
// the UID. A copy of the job on another cluster has the annotation, and so finds
// its checkpoints.
func (s *situation) runID() string {
	if id := s.Parent.Annotations[v1beta1.AnnotationRunID]; id != "" {
		return id
	}
	if s.was.RunID != "" {
		return s.was.RunID
	}
	return string(s.Parent.UID)
}

// runIDPatch sets the annotation once.
func (s *situation) runIDPatch() *Patch {
	if s.deleting || s.terminal() || s.Parent.Annotations[v1beta1.AnnotationRunID] != "" {
		return nil
	}
	target := rtjTarget
	target.Namespace, target.Name = s.Parent.Namespace, s.Parent.Name
	return &Patch{Name: "run-id", Target: target, Body: annotate(s.Parent.UID, v1beta1.AnnotationRunID, s.runID())}
}
