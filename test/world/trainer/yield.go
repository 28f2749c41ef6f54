package trainer

import (
	"fmt"
	"slices"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
)

// terminated is the cause of a yield of which nobody but SIGTERM told.
const terminated = "Terminated"

// tidings are what a process could tell the others of a yield; nil for nothing new.
func (t *Trainer) tidings(g *gang, p *process) *ask {
	if g.behaviour.Deaf || g.behaviour.Plain || t.silent(g, p) {
		return nil
	}
	know := ask{}
	if g.asked != nil {
		know = *g.asked
	}
	learnt := know
	for _, r := range []*request{p.control, p.notice} {
		if r == nil {
			continue
		}
		if learnt.cause == "" {
			learnt.id, learnt.cause = r.id, r.cause
		}
		if learnt.deadline.IsZero() || r.deadline.Before(learnt.deadline) {
			learnt.deadline = r.deadline
		}
	}
	if !p.terminated.IsZero() && !g.behaviour.DiesOnSIGTERM {
		if learnt.cause == "" {
			learnt.id, learnt.cause = p.env.attempt, terminated
		}
		if killAt := p.terminated.Add(p.env.grace - g.margin()); learnt.killAt.IsZero() || killAt.Before(learnt.killAt) {
			learnt.killAt = killAt
		}
	}
	if learnt == know {
		return nil
	}
	news := learnt // what is no news stays on the stack
	return &news
}

// silent reports whether the process answers nobody.
func (t *Trainer) silent(g *gang, p *process) bool {
	s := g.behaviour.Silent
	return s > 0 && p.env.first <= s && s < p.env.first+p.env.processes
}

// hear has all ranks know of a yield.
func (g *gang) hear(learnt ask, now time.Time) {
	if g.asked == nil {
		g.Asked, g.AskedAt = learnt.cause, now
	}
	g.asked = &learnt
	g.news = true
}

// mayAgree reports whether all ranks answer.
func (g *gang) mayAgree(now time.Time) bool {
	return g.asked != nil && !g.decided && g.leads && g.present >= g.WorldSize && g.gone == "" &&
		g.behaviour.Silent == 0 && !g.finishing && !g.complete(now)
}

// agree has the ranks agree on the largest step plus one, or on that at which they are
// parked, and decides what becomes of a save in flight.
func (g *gang) agree(now time.Time) {
	g.advance(now)
	top := g.Step
	if !g.trains {
		top = g.base()
	}
	agreed := top
	if g.trains {
		agreed++
	}
	g.decided, g.Agreed, g.news = true, agreed, true
	if !g.trains {
		return // restoring: there is nothing to save
	}
	kept := slices.DeleteFunc(slices.Clone(g.flying), func(s save) bool { return s.step > agreed })
	g.flying = kept
	if len(kept) > 0 && kept[0].step == agreed {
		kept[0].yielding = true
		return
	}
	if agreed <= g.committed() {
		return
	}
	if len(kept) > 0 {
		left, rest := g.asked.left(now), max(0, g.estimate-now.Sub(kept[0].begun))
		switch {
		case g.estimate < 0 || rest+g.estimate <= left:
		case g.estimate <= left && kept[0].stored < len(kept[0].parts):
			g.flying = nil
		case g.estimate <= left:
		default:
			return // that one, and no other
		}
	}
	g.begin(agreed, now).yielding = true
}

// mayLeave reports whether a yield without a save of its own is over.
func (g *gang) mayLeave(now time.Time) bool {
	return g.decided && g.trains && len(g.flying) == 0 && g.Outcome == "" && g.stepAt(now) >= g.Agreed && g.leads && !g.halted
}

func (g *gang) leaveWithoutSave(now time.Time) {
	g.conclude(checkpoint.ResultYielded, fmt.Sprintf("yielded at step %d after %s; no save of its own", g.Agreed, g.Asked), now)
}

func (g *gang) unserviced(why string, now time.Time) {
	g.conclude(checkpoint.ResultYieldNotServiced, fmt.Sprintf("yield after %s not serviced: %s", g.Asked, why), now)
}

// hopeless says why rank 0 ends the attempt now, and when it will; no reason: not now.
func (g *gang) hopeless(now time.Time) (outcome, why string, at time.Time) {
	due := func(o, w string, when time.Time) {
		if at.IsZero() || when.Before(at) {
			at = when
			if !now.Before(when) {
				outcome, why = o, w
			}
		}
	}
	if !g.followerGone.IsZero() {
		switch {
		case g.asked != nil:
			due(checkpoint.ResultYieldNotServiced, g.gone, g.followerGone)
		case g.finishing:
			due(checkpoint.ResultFailed, g.gone, g.followerGone)
		default:
			due(checkpoint.ResultFailed, g.gone, g.followerGone.Add(goneTime))
		}
	}
	if g.asked != nil && !g.finishing {
		if g.present < g.WorldSize {
			due(checkpoint.ResultYieldNotServiced, "ranks never joined", g.AskedAt.Add(agreementTime))
		}
		if g.behaviour.Silent > 0 {
			due(checkpoint.ResultYieldNotServiced, fmt.Sprintf("no answer from rank %d within 10 s", g.behaviour.Silent), g.AskedAt.Add(agreementTime))
		}
	}
	if g.asked != nil {
		due(checkpoint.ResultYieldNotServiced, "no checkpoint was committed in the time that there was", g.giveUpAt())
	}
	return outcome, why, at
}
