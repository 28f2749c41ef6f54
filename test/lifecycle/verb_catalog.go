package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/test/world/store"
)

// verbCatalog writes what workers write to the store; attempt=N is another one
// than that of status, world=N another world size than 4:
//
//	catalog start [restore=STEP]
//	catalog progress step=N [activity=training] [acknowledged]
//	catalog commit step=N [cut]         cut: an object of it is short
//	catalog result outcome=yielded step=N [lost=N] ["message=..."] [cause=checksumMismatch restore=STEP]
//	catalog quarantine step=N
func (w *world) verbCatalog(c *command) error {
	if w.job() == nil {
		return fmt.Errorf("there is no job")
	}
	n, err := c.numbers(map[string]int64{"attempt": w.job().Int("status", "attempt"), "world": 4, "step": 0, "lost": 0, "restore": -1})
	if err != nil {
		return err
	}
	if n["attempt"] == 0 {
		return fmt.Errorf("no attempt has begun; say attempt=N")
	}
	attempt := int32(n["attempt"])
	restore := ""
	if n["restore"] >= 0 {
		if restore, err = w.checkpoint(n["restore"]); err != nil {
			return err
		}
	}
	hand := w.hand(attempt, int32(n["world"]))
	switch what := c.word(""); what {
	case "start":
		return hand.Start(restore)
	case "progress":
		w.progress[attempt] = w.nextProgress(w.progress[attempt], attempt, n["step"], c)
		return hand.Progress(*w.progress[attempt])
	case "commit":
		id, err := hand.Commit(n["step"])
		if err != nil {
			return err
		}
		w.checkpoints[shownID(id)] = id
		if c.word("") == "cut" {
			return w.cut(attempt, n["step"])
		}
		return nil
	case "result":
		r := checkpoint.Result{Outcome: c.text("outcome", checkpoint.ResultYielded), Step: n["step"], LostSteps: n["lost"], Message: c.text("message", "")}
		if cause := c.text("cause", ""); cause != "" && restore != "" {
			r.RestoreFailure = &checkpoint.RestoreFailure{Checkpoint: restore, Cause: cause, Object: "checkpoints/1/r0-0"}
		}
		return hand.Result(r)
	case "quarantine":
		id, err := w.checkpoint(n["step"])
		if err != nil {
			return err
		}
		return hand.Quarantine(checkpoint.Quarantine{Checkpoint: id, Cause: "checksumMismatch", Object: "checkpoints/1/r0-0"})
	default:
		return fmt.Errorf("unknown %q", what)
	}
}

// checkpoint is the id of one of a step, of the highest attempt that has one.
func (w *world) checkpoint(step int64) (string, error) {
	for _, shown := range slices.Backward(slices.Sorted(maps.Keys(w.checkpoints))) {
		if _, of, _, _, err := checkpoint.ParseID(shown); err == nil && of == step {
			return w.checkpoints[shown], nil
		}
	}
	return "", fmt.Errorf("no checkpoint of step %d was committed", step)
}

// cut makes a data object of a checkpoint short.
func (w *world) cut(attempt int32, step int64) error {
	prefix := store.RunPrefix(w.job().Text("spec", "checkpoint", "storage", "uri"), namespace, jobName, w.runID())
	page, _, err := w.store.List(fmt.Sprintf("%scheckpoints/%d/%d-", prefix, attempt, step), "", 1)
	if err != nil || len(page) == 0 {
		return fmt.Errorf("no object of step %d is listed: %w", step, err)
	}
	w.store.Cut(page[0].Key)
	return nil
}

// nextProgress is the record that follows an earlier one.
func (w *world) nextProgress(before *checkpoint.Progress, attempt int32, step int64, c *command) *checkpoint.Progress {
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
