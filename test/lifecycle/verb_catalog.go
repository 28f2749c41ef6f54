package lifecycle

import (
	"fmt"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/test/scenario"
)

// verbCatalog writes what workers write to the store; attempt=N is another one
// than that of status, world=N another world size than 4:
//
//	catalog start [restore=STEP]
//	catalog progress step=N [activity=training] [acknowledged]
//	catalog commit step=N ["incomplete=..."]
//	catalog result outcome=yielded step=N [lost=N] ["message=..."] [cause=checksumMismatch restore=STEP]
//	catalog quarantine step=N
func (w *world) verbCatalog(c *command) error {
	current, _ := below(w.parent, "status")["attempt"].(int64)
	n, err := c.numbers(map[string]int64{"attempt": current, "world": 4, "step": 0, "lost": 0, "restore": -1})
	if err != nil {
		return err
	}
	if n["attempt"] == 0 {
		return fmt.Errorf("no attempt has begun; say attempt=N")
	}
	attempt := int32(n["attempt"])
	var restore *checkpoint.Manifest
	if n["restore"] >= 0 {
		if restore = w.store.find(n["restore"]); restore == nil {
			return fmt.Errorf("no checkpoint of step %d was committed", n["restore"])
		}
	}
	records := w.store.attempts[attempt]
	switch what := c.word(""); what {
	case "start":
		records.Start = &checkpoint.Start{Attempt: attempt, WorldSize: int32(n["world"]), StartedAt: w.now}
		if restore != nil {
			records.Start.Restore = &checkpoint.Restore{Checkpoint: restore.ID, Attempt: restore.Attempt, Step: restore.Step}
		}
	case "progress":
		records.Progress = w.progress(records.Progress, attempt, n["step"], c)
	case "commit":
		w.store.commit(w.now, attempt, n["step"], int32(n["world"]), w.runID(), c.text("incomplete", ""))
		return nil
	case "result":
		records.Result = &checkpoint.Result{
			Attempt: attempt, Outcome: c.text("outcome", checkpoint.ResultYielded), Step: n["step"], LostSteps: n["lost"],
			Message: c.text("message", ""), EndedAt: w.now,
		}
		if cause := c.text("cause", ""); cause != "" && restore != nil {
			records.Result.RestoreFailure = &checkpoint.RestoreFailure{Checkpoint: restore.ID, Cause: cause, Object: "checkpoints/1/r0-0"}
		}
	case "quarantine":
		m := w.store.find(n["step"])
		if m == nil {
			return fmt.Errorf("no checkpoint of step %d was committed", n["step"])
		}
		w.store.quarantined[m.ID] = checkpoint.Quarantine{Checkpoint: m.ID, Cause: "checksumMismatch", Object: "checkpoints/1/r0-0", RecordedAt: w.now}
		return nil
	default:
		return fmt.Errorf("unknown %q", what)
	}
	w.store.attempts[attempt] = records
	return nil
}

// progress is the record that follows an earlier one.
func (w *world) progress(before *checkpoint.Progress, attempt int32, step int64, c *command) *checkpoint.Progress {
	p := &checkpoint.Progress{Attempt: attempt, Activity: c.text("activity", "training"), Step: step, UpdatedAt: w.now}
	if step > 0 {
		p.FirstStepAt = new(time.Time)
		*p.FirstStepAt = w.now
		if before != nil && before.FirstStepAt != nil {
			p.FirstStepAt = before.FirstStepAt
		}
	}
	if before != nil {
		p.Yield = before.Yield
	}
	if c.word("") == "acknowledged" {
		now, agreed := w.now, step+1
		p.Yield = &struct {
			ID             int32      `json:"id"`
			AcknowledgedAt *time.Time `json:"acknowledgedAt"`
			AgreedStep     *int64     `json:"agreedStep"`
		}{ID: attempt, AcknowledgedAt: &now, AgreedStep: &agreed}
	}
	return p
}

// runID is the run of the job.
func (w *world) runID() string {
	if id, ok := below(w.parent, "status")["runID"].(string); ok && id != "" {
		return id
	}
	return metadata(w.parent)["uid"].(string)
}

// find returns the newest checkpoint of a step.
func (s *store) find(step int64) *checkpoint.Manifest {
	for i := len(s.manifests) - 1; i >= 0; i-- {
		if s.manifests[i].Step == step {
			return &s.manifests[i]
		}
	}
	return nil
}

func (s *store) commit(now time.Time, attempt int32, step int64, world int32, runID, incomplete string) {
	s.manifests = append(s.manifests, checkpoint.Manifest{
		ID: scenario.ManifestID(attempt, step), Attempt: attempt, Step: step, CommittedAt: now, RunID: runID,
		Incomplete: incomplete, WorldSize: world, Layout: checkpoint.Layout{DP: world},
		Components: map[string]checkpoint.Component{"model": {Reshard: "any", Complete: true}},
	})
}
