package trainer

import (
	"cmp"
	"fmt"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/test/world/event"
)

// conclude is how the attempt ends. The result is written next.
func (g *gang) conclude(outcome, message string, now time.Time) {
	if g.Outcome != "" {
		return
	}
	g.Outcome, g.Message, g.concludedAt = outcome, message, now
	if len(g.flying) > 0 && g.flying[0].stored == len(g.flying[0].parts) {
		g.flying = g.flying[:1:1] // its commit is under way
	} else {
		g.flying = nil
	}
	g.news = true
}

// resultEnds is until when the result record is tried.
func (g *gang) resultEnds() time.Time {
	patience := resultTime
	if g.Outcome == checkpoint.ResultFinished {
		patience = finishTime
	}
	at := g.concludedAt.Add(patience)
	if g.asked != nil {
		at = event.Soonest(at, g.giveUpAt().Add(recordMargin))
	}
	return at
}

// recordResult writes the result and tells the ranks.
func (t *Trainer) recordResult(g *gang, answered bool) {
	now := t.env.Now()
	g.advance(now)
	if g.result == nil {
		g.result = g.resultRecord(now)
	}
	key := g.env.prefix + recordKey(g.Number, "result")
	if !answered {
		if t.env.Store.PutLost(key, g.result); t.env.Store.Failure() == nil {
			g.Recorded = true
			g.loseAnswer("result")
		}
		return
	}
	if _, err := t.env.Store.Put(key, g.result); err != nil {
		return
	}
	g.Recorded = true
	g.tell(g.Outcome, now)
}

func (g *gang) resultRecord(now time.Time) []byte {
	d := resultDocument{
		head: ofKind("AttemptResult"), Attempt: g.Number, Outcome: g.Outcome, Step: g.Step,
		LostSteps: max(0, g.Step-g.committed()), Message: g.Message, RestoreFailure: g.failure, EndedAt: now.UTC(),
	}
	if g.lastSave != nil {
		d.Checkpoint = &g.lastSave.Checkpoint
	}
	return encode(d)
}

func (g *gang) loseAnswer(what string) {
	lost := map[string]bool{what: true}
	for key := range g.lost {
		lost[key] = true
	}
	g.lost = lost
}

// tell has every rank know the outcome; now they may leave.
func (g *gang) tell(outcome string, now time.Time) {
	g.advance(now)
	g.told = &outcome
	g.news = true
}

// leaveUnrecorded: the result could not be written.
func (g *gang) leaveUnrecorded(now time.Time) {
	outcome := g.Outcome
	if outcome == checkpoint.ResultFinished {
		outcome = checkpoint.ResultFailed
		g.Message = "finished, but that could not be recorded"
	}
	g.tell(outcome, now)
}

// code is the exit code of a pod that leaves with the outcome.
func (g *gang) code(outcome string) int32 {
	switch outcome {
	case checkpoint.ResultFinished:
		return 0
	case checkpoint.ResultYielded:
		if g.behaviour.Bare {
			return 0
		}
		return 75
	case checkpoint.ResultYieldNotServiced:
		return 76
	case checkpoint.ResultRestoreFailed:
		if g.behaviour.Bare {
			return 1
		}
		return 77
	}
	return 1
}

// orphaned is when a rank other than 0 leaves because it hears nothing of rank 0, and
// with which code; zero: never.
func (g *gang) orphaned() (at time.Time, code int32) {
	switch {
	case !g.leaderGone.IsZero() && g.asked != nil:
		return later(g.leaderGone, g.AskedAt), 76
	case !g.leaderGone.IsZero():
		return g.leaderGone.Add(goneTime), 1
	case g.asked != nil:
		return g.giveUpAt().Add(overdueMargin), 76
	}
	return time.Time{}, 0
}

// crash ends the processes of a pod that failed. With recorded it is an exception: the
// others are told, and rank 0 writes a result.
func (t *Trainer) crash(p process, code int32, recorded bool) {
	now := t.env.Now()
	g := t.gang(p.gang)
	g.advance(now)
	if recorded && p.leads() && g.Outcome == "" && !g.behaviour.Plain {
		g.Outcome = checkpoint.ResultFailed
		g.Message = "RuntimeError: loss is not finite"
		if g.asked != nil {
			g.Outcome = checkpoint.ResultYieldNotServiced
			g.Message = fmt.Sprintf("yield after %s not serviced: %s", g.Asked, g.Message)
		}
		if _, err := t.env.Store.Put(g.env.prefix+recordKey(g.Number, "result"), g.resultRecord(now)); err == nil {
			g.Recorded = true
		}
	}
	t.exit(p.uid, code)
	if g := t.gang(p.gang); recorded && g != nil {
		// They were told.
		if p.leads() {
			g.leaderGone = now
		} else {
			g.followerGone = now
		}
	}
}

// crashes is the pod that the behaviour has fail now.
func (t *Trainer) crashes(g *gang, now time.Time) (p *process, code int32) {
	b := &g.behaviour
	if b.CrashAt == 0 || b.CrashAt <= g.base() || !g.trains || g.told != nil || g.halted || g.stepAt(now) < b.CrashAt {
		return nil, 0
	}
	for i := range t.processes {
		p := &t.processes[i]
		if p.gang == g.number && p.env.first <= b.CrashRank && b.CrashRank < p.env.first+p.env.processes {
			return p, cmp.Or(b.CrashCode, 1)
		}
	}
	return nil, 0
}

// killAll ends all processes of an attempt.
func (t *Trainer) killAll(number int) {
	var uids []string
	for i := range t.processes {
		if t.processes[i].gang == number {
			uids = append(uids, t.processes[i].uid)
		}
	}
	for _, uid := range uids {
		t.exit(uid, 137)
	}
}
