package trainer

import (
	"math"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
)

// recordStart writes the start record.
func (t *Trainer) recordStart(g *gang, answered bool) {
	start := &checkpoint.Start{Attempt: g.Number, WorldSize: g.WorldSize, Layout: g.env.layout(), StartedAt: g.StartedAt.UTC()}
	if id := g.Selected.ID; id != "" {
		attempt, step, _, _, _ := checkpoint.ParseID(id)
		start.Restore = &checkpoint.Restore{Checkpoint: id, Attempt: attempt, Step: step}
	}
	_, err := t.env.Store.Put(g.env.prefix+recordKey(g.Number, "start"), encode(startDocument{ofKind("AttemptStart"), start}))
	if !answered {
		g.loseAnswer("start")
	} else if err == nil {
		g.started = true
		g.open(t.env.Now())
	}
}

// progressDue is when progress is reported if nothing new happens; zero: never.
func (g *gang) progressDue() time.Time {
	if g.behaviour.ProgressTime == 0 || g.behaviour.StepTime == 0 || !g.leads {
		return time.Time{}
	}
	return g.progressAt.Add(g.behaviour.ProgressTime)
}

// report writes the progress record.
func (t *Trainer) report(g *gang) {
	now := t.env.Now()
	g.advance(now)
	p := g.progress(now)
	if _, err := t.env.Store.PutProgress(g.env.prefix+recordKey(g.Number, "progress"), encodeProgress(p), p); err != nil {
		return
	}
	g.news, g.progressAt = false, now
	g.Acknowledged = g.Acknowledged || g.asked != nil
}

// progress is what the record says; it shares nothing that changes.
func (g *gang) progress(now time.Time) *checkpoint.Progress {
	p := &checkpoint.Progress{
		Attempt: g.Number, Activity: g.activity(), Step: g.Step, LastSave: g.lastSave, UpdatedAt: now.UTC(),
	}
	if !g.trains {
		p.Step = g.base()
	}
	if total := g.behaviour.Total; total > 0 {
		p.TotalSteps = &total
	}
	if !g.firstStepAt.IsZero() {
		at := g.firstStepAt.UTC()
		p.FirstStepAt = &at
		if g.behaviour.StepTime > 0 && g.Step > g.base()+1 {
			rate := math.Round(1e4/g.behaviour.StepTime.Seconds()) / 1e4
			p.StepsPerSecond = &rate
		}
	}
	if g.Restored {
		took := g.restoreTook.Round(time.Millisecond).Seconds()
		p.RestoreSeconds = &took
	}
	if g.asked != nil {
		at := g.AskedAt.UTC()
		p.Yield = new(struct {
			ID             int32      `json:"id"`
			AcknowledgedAt *time.Time `json:"acknowledgedAt"`
			AgreedStep     *int64     `json:"agreedStep"`
		})
		p.Yield.ID, p.Yield.AcknowledgedAt = g.asked.id, &at
		if g.decided {
			agreed := g.Agreed
			p.Yield.AgreedStep = &agreed
		}
	}
	return p
}

func (g *gang) activity() string {
	switch {
	case g.told != nil:
		return "leaving"
	case !g.trains && g.Selected.ID != "":
		return "restoring"
	case len(g.flying) > 0 && (g.flying[0].yielding || g.flying[0].final):
		return "saving"
	}
	return "training"
}
