package trainer

import (
	"fmt"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
)

// Times of the SDK.
const (
	agreementTime  = 10 * time.Second // no answer, or no rank, within this
	openTime       = 10 * time.Second // of a start record; then the job begins without
	noticeGone     = 10 * time.Second // a connection that broke does not come back
	noticeGoneSoon = 2 * time.Second  // where a yield was asked
	goneTime       = 10 * time.Second // from there to the end of the others
	periodicTime   = 10 * time.Minute
	finalTime      = time.Hour
	retryTime      = 30 * time.Second
	resultTime     = 5 * time.Second
	finishTime     = time.Minute
	recordMargin   = 250 * time.Millisecond // of a result after the end of a yield
	rendezvousTime = 15 * time.Minute       // of the launcher, for all ranks to be there
	overdueMargin  = 650 * time.Millisecond // of ranks that hear nothing of rank 0
)

// gang are the ranks of an attempt, and what rank 0 knows of them. Its slices are
// shared with clones: none is changed in place.
type gang struct {
	Attempt
	number    int
	label     string
	env       *environment // of the pod that started first
	behaviour Behaviour
	behaves   string // the behaviour as text

	firsts  []int32 // the first ranks of the pods that joined
	present int32   // ranks that joined
	leads   bool    // rank 0's process runs
	ledAt   time.Time
	// leaderGone and followerGone are when the others notice; zero: not gone.
	leaderGone, followerGone time.Time
	gone                     string

	opened  bool // rank 0's start() returned
	started bool // the start record is written
	// trains from since on: all ranks are there and restored. Step is that at since.
	trains      bool
	since       time.Time
	restoreAt   time.Time
	halted      bool // a rank is gone or hangs, so nobody makes a step
	firstStepAt time.Time
	restoreTook time.Duration

	// flying are the saves that are not committed, of which the first is stored.
	flying   []save
	saves    int
	lastWish time.Time
	estimate time.Duration // how long the last save took; negative: not known
	lastSave *checkpoint.Save

	asked     *ask
	decided   bool // the ranks know the step of the yield
	finishing bool

	concludedAt time.Time
	failure     *checkpoint.RestoreFailure
	result      []byte // the record, once it was tried
	// told is the outcome with which the ranks leave; nil before.
	told *string

	// news has progress reported at once.
	news       bool
	progressAt time.Time
	lost       map[string]bool // records of which an answer was lost; never changed
}

// ask is a yield as the ranks know it.
type ask struct {
	request
	killAt time.Time
}

// save is one that all ranks were told of. It is not changed in place.
type save struct {
	nonce           string
	step            int64
	begun           time.Time
	from            time.Time // when it may be stored: the earlier one is committed
	yielding, final bool
	parts           []object
	stored          int
	indexes         []checkpoint.IndexRef
	bytes           int64
	id              string
	manifest        []byte // once it was tried
	lost            bool   // an answer was lost before
}

func newGang(number int, e *environment, now time.Time) gang {
	g := gang{
		number: number, env: e, firsts: []int32{e.first}, estimate: -1,
		label: fmt.Sprintf("trainer: %s/%s-%d ", e.namespace, e.name, e.attempt),
	}
	g.Attempt = Attempt{
		Namespace: e.namespace, Name: e.name, RunID: e.runID, Number: e.attempt, WorldSize: e.worldSize, StartedAt: now, Agreed: -1,
	}
	return g
}

// joined notes that a pod's ranks are there.
func (t *Trainer) joined(g *gang, now time.Time) {
	p := &t.processes[len(t.processes)-1]
	g.Running++
	g.present += p.env.processes
	if p.leads() {
		g.leads, g.ledAt, g.news = true, now, true
	}
	if g.behaviour.Plain {
		g.opened = true
	}
	g.meet(now)
}

// rendezvousEnds is until when ranks wait for those that are not there; zero: all are.
func (g *gang) rendezvousEnds() time.Time {
	if g.present >= g.WorldSize {
		return time.Time{}
	}
	return g.StartedAt.Add(rendezvousTime)
}

// open notes that rank 0's start() returned.
func (g *gang) open(now time.Time) {
	g.opened = true
	g.meet(now)
}

// openEnds is until when start() waits for the store.
func (g *gang) openEnds() time.Time { return g.ledAt.Add(openTime) }

// meet has the ranks restore, or train, once all are there.
func (g *gang) meet(now time.Time) {
	if g.present < g.WorldSize || !g.opened || g.trains || !g.restoreAt.IsZero() {
		return
	}
	if g.Selected.ID != "" && !g.behaviour.Plain {
		g.restoreAt = now.Add(g.behaviour.RestoreTime)
		return
	}
	g.train(now.Add(g.behaviour.RestoreTime), 0)
}

// train has the ranks go on from a step.
func (g *gang) train(since time.Time, step int64) {
	g.trains, g.since, g.Step = true, since, step
}

// base is the step from which the ranks go on once they train.
func (g *gang) base() int64 { return g.Selected.Step }

// committed is the step up to which nothing need be saved.
func (g *gang) committed() int64 {
	if n := len(g.Commits); n > 0 {
		return g.Commits[n-1].Step
	}
	return g.base()
}

// limit is a step that is not passed; negative: none.
func (g *gang) limit() int64 {
	limit := int64(-1)
	lower := func(step int64) {
		if limit < 0 || step < limit {
			limit = step
		}
	}
	if g.behaviour.Total > 0 {
		lower(max(g.behaviour.Total, g.base()))
	}
	if at := g.behaviour.CrashAt; at > g.base() {
		lower(at)
	}
	if g.decided {
		lower(g.Agreed)
	}
	return limit
}

// stepAt is the number of steps applied at a time.
func (g *gang) stepAt(now time.Time) int64 {
	if !g.trains || g.halted || g.told != nil || g.behaviour.StepTime == 0 || !now.After(g.since) {
		return g.Step
	}
	step := g.Step + int64(now.Sub(g.since)/g.behaviour.StepTime)
	if limit := g.limit(); limit >= 0 {
		step = min(step, max(limit, g.Step))
	}
	return step
}

// reachedAt is when a step is applied, if nothing comes between; zero: not by time.
func (g *gang) reachedAt(step int64) time.Time {
	if !g.trains || g.halted || g.behaviour.StepTime == 0 || step <= g.Step {
		return time.Time{}
	}
	return g.since.Add(time.Duration(step-g.Step) * g.behaviour.StepTime)
}

// advance brings the steps up to a time.
func (g *gang) advance(now time.Time) {
	step := g.stepAt(now)
	if made := step - g.Step; made > 0 {
		if g.firstStepAt.IsZero() {
			g.began(g.since.Add(g.behaviour.StepTime))
		}
		g.since = g.since.Add(time.Duration(made) * g.behaviour.StepTime)
		g.Step = step
	}
}

// began notes the first step.
func (g *gang) began(at time.Time) {
	g.firstStepAt, g.lastWish, g.news = at, at, true
}

// halt ends the steps: ranks wait for one that does not come.
func (g *gang) halt(now time.Time) {
	g.advance(now)
	g.halted = true
}

// complete reports whether the last step is applied.
func (g *gang) complete(now time.Time) bool {
	return g.trains && g.behaviour.Total > 0 && g.stepAt(now) >= g.behaviour.Total
}

// leave notes that a pod's processes ended.
func (g *gang) leave(p *process, code int32, now time.Time) {
	g.Running--
	g.advance(now)
	if p.leads() {
		g.leads = false
	}
	if g.told != nil || g.behaviour.Plain {
		return
	}
	g.halted = true
	noticed := now.Add(noticeGone)
	if g.asked != nil {
		noticed = now.Add(noticeGoneSoon)
	}
	g.gone = fmt.Sprintf("rank %d is gone: exit code %d", p.env.first, code)
	switch {
	case p.leads():
		g.leaderGone = noticed
	case g.followerGone.IsZero():
		g.followerGone = noticed
	}
}

// margin is how long before SIGKILL the ranks give up.
func (g *gang) margin() time.Duration { return min(2*time.Second, g.env.grace/10) }

// giveUpAt is when all hope for a yield is over.
func (g *gang) giveUpAt() time.Time {
	if !g.asked.killAt.IsZero() {
		return g.asked.killAt
	}
	return g.asked.deadline.Add(g.env.grace - g.margin())
}

// left is the time in which a commit should be reached.
func (a *ask) left(now time.Time) time.Duration {
	var left time.Duration
	for _, at := range []time.Time{a.deadline, a.killAt} {
		if at.After(now) && (left == 0 || at.Sub(now) < left) {
			left = at.Sub(now)
		}
	}
	return left
}
