package trainer

import (
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog"
)

// Attempt is what the workers of an attempt know and did, and what was true of what was
// selected for them.
type Attempt struct {
	Namespace, Name, RunID string
	Number                 int32
	WorldSize              int32
	StartedAt              time.Time
	// EndedAt is when the last of its processes ended; zero: some run.
	EndedAt time.Time
	// Running is how many pods of it run.
	Running int

	// Selected is the checkpoint that the controller selected; empty: start fresh.
	Selected Selected
	// Restored tells that it was read, and every byte was right.
	Restored bool

	// Step is the number of steps applied.
	Step int64
	// Commits are its own checkpoints of which the answer came, oldest first.
	Commits []Commit

	// Asked is why it was asked to end, empty while it was not: the cause of a yield, or
	// Terminated. AskedAt is when that was heard.
	Asked   string
	AskedAt time.Time
	// Acknowledged tells that progress said so.
	Acknowledged bool
	// Agreed is the step on which the ranks agreed; -1 before.
	Agreed int64

	// Outcome is that of the result record, or what it would say if it could be
	// written; empty while the attempt has none.
	Outcome string
	Message string
	// Recorded tells that the result record was written.
	Recorded bool
}

// Commit is a checkpoint that is committed.
type Commit struct {
	ID   string
	Step int64
	At   time.Time
	// ForYield tells that it answers a yield.
	ForYield bool
}

// Selected is what was true of a checkpoint when the first worker was told of it,
// whatever the store would have answered.
type Selected struct {
	ID string
	// Step is that of the ID.
	Step int64
	// Problem says why it cannot be restored: incomplete, no manifest, damaged; empty if
	// it can.
	Problem string
	// Quarantined, or of another run than the job's.
	Quarantined, Foreign bool
	// WorldSize and Identity are those that it was saved with.
	WorldSize int32
	Identity  map[string]string
}

// Base is the step from which the attempt went on; 0 for a fresh start or a restore
// that did not come about.
func (a Attempt) Base() int64 {
	if !a.Restored {
		return 0
	}
	return a.Selected.Step
}

// Durable is the step that the next attempt can go on from, as the workers know it.
func (a Attempt) Durable() int64 {
	if n := len(a.Commits); n > 0 {
		return a.Commits[n-1].Step
	}
	return a.Base()
}

// Lost are the steps that were applied and are in no checkpoint.
func (a Attempt) Lost() int64 { return max(0, a.Step-a.Durable()) }

// Attempts are those that are over, then those that run, each oldest first.
func (t *Trainer) Attempts() []Attempt { return t.Since(0) }

// Since is [Trainer.Attempts] without the first n.
func (t *Trainer) Since(n int) []Attempt {
	now := t.env.Now()
	all := make([]Attempt, 0, len(t.past)-n+len(t.gangs))
	all = append(all, t.past[n:]...)
	for i := range t.gangs {
		a := t.gangs[i].Attempt
		a.Step = t.gangs[i].stepAt(now)
		all = append(all, a)
	}
	return all
}

// Over are the attempts that are over, oldest first. It must not be changed, and is
// only added to.
func (t *Trainer) Over() []Attempt { return t.past }

func stepOf(id string) int64 {
	_, step, _, _, _ := checkpoint.ParseID(id)
	return step
}

// judgeSelected notes what is true of what was selected for the attempt.
func (t *Trainer) judgeSelected(g *gang) {
	id := g.env.restore
	if id == "" {
		return
	}
	g.Selected = Selected{ID: id, Step: stepOf(id), Problem: "no manifest has this id"}
	snapshot := t.env.Store.Truth(g.env.run(), catalog.Ask{Include: []string{id}, Recheck: []string{id}})
	_, g.Selected.Quarantined = snapshot.Quarantined[id]
	for i := range snapshot.Manifests {
		m := &snapshot.Manifests[i]
		if m.ID != id {
			continue
		}
		g.Selected.Problem = m.Incomplete
		if m.Defect != nil {
			g.Selected.Problem = m.Defect.Message
		}
		g.Selected.Foreign = m.Defect == nil && m.RunID != g.env.runID
		g.Selected.WorldSize, g.Selected.Identity = m.WorldSize, m.Identity
	}
}
