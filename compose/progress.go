package compose

import (
	"fmt"
	"strconv"
	"time"

	"rtj.dev/rtj/api/v1beta1"
)

const (
	// mirrorPeriod is how often progress is mirrored into status.
	mirrorPeriod = time.Minute
	// pollRunning, pollRestoring and pollDraining are how often the store is read
	// while an attempt runs or drains.
	pollRunning   = 30 * time.Second
	pollRestoring = 2 * time.Second
	pollDraining  = time.Second
	// pollUnusable is how often it is read while quota is held that only the store
	// keeps from being used.
	pollUnusable = 5 * time.Second
)

// watchStore asks for the readings that a running attempt needs.
func (s *situation) watchStore() {
	if !s.live() {
		return
	}
	switch {
	case s.yield != nil:
		s.wantCatalogAgain(pollDraining)
	case !s.trains():
		if s.attempt.readyPods() > 0 {
			s.wantCatalogAgain(pollRestoring)
		}
	case s.records().Progress == nil && s.Now.Sub(s.ledgerEntry(s.attempt.number).ReadyAt.Time) < mirrorPeriod:
		// A worker that uses the SDK reports soon; one that does not never will.
		s.wantCatalogAgain(pollRestoring)
	default:
		s.wantCatalogAgain(pollRunning)
	}
}

// trains reports whether the live attempt trains: all pods are ready, and, when
// it restores a checkpoint, its own record shows the first new step.
func (s *situation) trains() bool {
	entry := s.ledgerEntry(s.attempt.number)
	if entry == nil || entry.ReadyAt == nil {
		return false
	}
	if entry.RestoredFrom == "" || entry.FirstStepAt != nil {
		return true
	}
	p := s.records().Progress
	return p != nil && (p.FirstStepAt != nil || p.Activity == "training" && p.RestoreSeconds != nil)
}

// mirror brings progress and checkpoints into status: at transitions, and else
// at most once a minute, so that a job that only makes progress costs one write
// a minute.
func (s *situation) mirror(now standing) {
	transition := s.next.Phase != s.was.Phase || now.reason != s.readyReason() || s.next.Attempt != s.was.Attempt ||
		s.judged() && s.attempt != nil && !s.endStands()
	r := s.records()
	if r.Progress != nil {
		p := s.was.Progress
		due := p == nil || p.UpdatedAt == nil || p.Attempt != s.attempt.number || r.Progress.UpdatedAt.Sub(p.UpdatedAt.Time) >= mirrorPeriod
		if transition || due {
			s.next.Progress = s.progress()
			transition = true
		}
	}
	if transition {
		s.next.Workers = s.workers()
	}
	// The first checkpoint is news; of those of a draining attempt its end tells.
	if transition || s.next.Checkpoint.Latest == nil && s.yield == nil {
		s.recordCheckpoint()
	}
	s.noteRecords(transition)
}

func (s *situation) progress() *v1beta1.ProgressStatus {
	p := s.records().Progress
	status := &v1beta1.ProgressStatus{Attempt: s.attempt.number, Step: p.Step, TotalSteps: p.TotalSteps}
	if !p.UpdatedAt.IsZero() {
		status.UpdatedAt = timePtr(p.UpdatedAt)
	}
	if result := s.records().Result; result != nil && result.Step > status.Step {
		status.Step = result.Step
	}
	if p.StepsPerSecond == nil || *p.StepsPerSecond <= 0 {
		return status
	}
	status.StepsPerSecond = strconv.FormatFloat(*p.StepsPerSecond, 'g', 4, 64)
	if p.TotalSteps != nil && *p.TotalSteps > p.Step && s.live() {
		left := float64(*p.TotalSteps-p.Step) / *p.StepsPerSecond
		if left < (100 * 365 * 24 * time.Hour).Seconds() {
			status.ETA = timePtr(p.UpdatedAt.Add(time.Duration(left * float64(time.Second))))
		}
	}
	return status
}

// workers is ready and wanted pods of the current attempt.
func (s *situation) workers() string {
	if !s.live() && !s.claimedButIdle() {
		return ""
	}
	var wanted int32
	for _, job := range s.spec.Template.Spec.ReplicatedJobs {
		wanted += replicas(&job) * parallelism(&job)
	}
	if s.next.Admission != nil {
		wanted = 0
		for _, set := range s.next.Admission.PodSets {
			wanted += set.Count
		}
	}
	return fmt.Sprintf("%d/%d", s.attempt.readyPods(), wanted)
}

// minResync is the shortest time after which to look again.
const minResync = 100 * time.Millisecond
