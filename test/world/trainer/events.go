package trainer

import (
	"fmt"
	"strconv"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/test/world/event"
)

// Events adds what the workers may do now.
func (t *Trainer) Events(add func(event.Event)) {
	now := t.env.Now()
	for i := range t.gangs {
		t.gangEvents(&t.gangs[i], now, add)
	}
}

func (t *Trainer) gangEvents(g *gang, now time.Time, add func(event.Event)) {
	if g.behaviour.Plain {
		t.plainEvents(g, now, add)
		return
	}
	t.processEvents(g, now, add)
	t.rankZeroEvents(g, now, add)
}

// offer is an event of a gang, which is looked up when it happens.
func (t *Trainer) offer(g *gang, add func(event.Event), name string, do func(g *gang)) {
	t.offerAs(g, add, event.Event{Name: g.label + name}, do)
}

func (t *Trainer) fault(g *gang, add func(event.Event), name string, do func(g *gang)) {
	t.offerAs(g, add, event.Event{Name: g.label + name, Fault: true}, do)
}

func (t *Trainer) offerAs(g *gang, add func(event.Event), e event.Event, do func(g *gang)) {
	number := g.number
	e.Do = func() { do(t.gang(number)) }
	add(e)
}

// rankZeroEvents are those of the attempt as a whole, which need rank 0.
func (t *Trainer) rankZeroEvents(g *gang, now time.Time, add func(event.Event)) {
	if !g.leads {
		return
	}
	down := t.env.Store.Failure() != nil
	if !g.started && !down && g.told == nil {
		t.offer(g, add, "writes its start record", func(g *gang) { t.recordStart(g, true) })
		if t.Offer.LostAnswers && !g.lost["start"] {
			t.fault(g, add, "writes its start record, the answer is lost", func(g *gang) { t.recordStart(g, false) })
		}
	}
	if due := g.progressDue(); !down && (g.news || !due.IsZero() && !now.Before(due)) {
		t.offer(g, add, "reports progress", t.report)
	}
	if len(g.flying) > 0 && g.Outcome != "" {
		t.commitEvents(g, now, down, add)
	}
	if g.told != nil {
		return
	}
	if g.Outcome != "" {
		t.resultEvents(g, now, down, add)
		return
	}
	if !g.opened {
		t.openEvents(g, now, add)
	}
	if outcome, why, _ := g.hopeless(now); outcome != "" {
		if outcome == checkpoint.ResultYieldNotServiced {
			t.offer(g, add, "gives the yield up: "+why, func(g *gang) { g.unserviced(why, t.env.Now()) })
		} else {
			t.offer(g, add, "gives up: "+why, func(g *gang) { g.conclude(outcome, why, t.env.Now()) })
		}
	}
	if t.mayRestore(g, now) {
		t.offer(g, add, "restores", t.restore)
	}
	if g.maySave(now) {
		t.offer(g, add, "begins a save", func(g *gang) { g.beginPeriodic(t.env.Now()) })
	}
	if g.mayAgree(now) {
		t.offer(g, add, "agrees", func(g *gang) { g.agree(t.env.Now()) })
	}
	if g.mayLeave(now) {
		t.offer(g, add, "leaves without a save", func(g *gang) { g.leaveWithoutSave(t.env.Now()) })
	}
	if !g.finishing && g.complete(now) && !g.halted && !(g.decided && g.Agreed <= g.stepAt(now)) {
		t.offer(g, add, "finishes", func(g *gang) { g.finish(t.env.Now()) })
	}
	if len(g.flying) > 0 {
		t.saveEvents(g, now, down, add)
	}
	if g.behaviour.StepTime == 0 && g.trains && !g.halted && now.Compare(g.since) >= 0 {
		if limit := g.limit(); limit < 0 || g.Step < limit {
			t.offer(g, add, "makes step "+strconv.FormatInt(g.Step+1, 10), func(g *gang) { g.step(t.env.Now()) })
		}
	}
}

// openEvents are those of a start() whose store does not take the start record.
func (t *Trainer) openEvents(g *gang, now time.Time, add func(event.Event)) {
	for i := range t.processes {
		p := &t.processes[i]
		if p.gang != g.number || !p.leads() {
			continue
		}
		if uid := p.uid; t.env.Store.Refuses() {
			t.offer(g, add, "cannot begin: the store refuses", func(*gang) { t.crash(*t.process(uid), 1, false) })
		} else if !now.Before(g.openEnds()) {
			t.offer(g, add, "begins without its start record", func(g *gang) { g.open(t.env.Now()) })
		}
	}
}

// saveEvents are those of the save that is stored.
func (t *Trainer) saveEvents(g *gang, now time.Time, down bool, add func(event.Event)) {
	s := &g.flying[0]
	if !now.Before(g.saveEnds()) || t.env.Store.Refuses() {
		t.offer(g, add, fmt.Sprintf("gives the save of step %d up", s.step), func(g *gang) { g.giveUpSave("the store did not take it", t.env.Now()) })
		return
	}
	if down || !g.applied(now) || now.Before(g.storeAt()) {
		return
	}
	if s.stored < len(s.parts) {
		if t.runs(g, s.stored) {
			if g.behaviour.Whole {
				t.offer(g, add, fmt.Sprintf("stores step %d", s.step), t.storePart)
			} else {
				t.offer(g, add, fmt.Sprintf("stores part %d of step %d", s.stored, s.step), t.storePart)
			}
			if t.Offer.TornSaves && g.behaviour.Whole {
				t.fault(g, add, fmt.Sprintf("is killed while step %d is stored", s.step), t.tear)
			}
		}
		return
	}
	t.commitEvents(g, now, down, add)
}

// commitEvents are those of the manifest, once all parts are stored.
func (t *Trainer) commitEvents(g *gang, now time.Time, down bool, add func(event.Event)) {
	s := &g.flying[0]
	if g.started && !down && !now.Before(g.storeAt()) {
		t.offer(g, add, fmt.Sprintf("commits step %d", s.step), func(g *gang) { t.commit(g, true) })
		if t.Offer.LostAnswers && !s.lost {
			t.fault(g, add, fmt.Sprintf("commits step %d, the answer is lost", s.step), func(g *gang) { t.commit(g, false) })
		}
	}
}

// runs reports whether the rank that stores a part is there. Where all parts are one
// event all ranks must be.
func (t *Trainer) runs(g *gang, part int) bool {
	if g.gone == "" {
		return true
	}
	if g.behaviour.Whole {
		return false
	}
	rank := int32(part / (len(g.flying[0].parts) / int(g.WorldSize)))
	for i := range t.processes {
		if p := &t.processes[i]; p.gang == g.number && p.env.first <= rank && rank < p.env.first+p.env.processes {
			return true
		}
	}
	return false
}

func (t *Trainer) resultEvents(g *gang, now time.Time, down bool, add func(event.Event)) {
	if !now.Before(g.resultEnds()) || t.env.Store.Refuses() {
		t.offer(g, add, "leaves without a record", func(g *gang) { g.leaveUnrecorded(t.env.Now()) })
	} else if !down {
		t.offer(g, add, "writes its result: "+g.Outcome, func(g *gang) { t.recordResult(g, true) })
		if t.Offer.LostAnswers && !g.lost["result"] {
			t.fault(g, add, "writes its result, the answer is lost", func(g *gang) { t.recordResult(g, false) })
		}
	}
}

// step applies a step.
func (g *gang) step(now time.Time) {
	g.Step++
	if g.firstStepAt.IsZero() {
		g.began(now)
	}
}

// processEvents are those of each pod.
func (t *Trainer) processEvents(g *gang, now time.Time, add func(event.Event)) {
	told := false
	for i := range t.processes {
		p := &t.processes[i]
		if p.gang != g.number || t.silent(g, p) {
			continue
		}
		uid := p.uid
		if g.told != nil {
			code := g.code(*g.told)
			t.offer(g, add, p.env.podName+" exits "+strconv.Itoa(int(code)), func(*gang) { t.exit(uid, code) })
			continue
		}
		if g.behaviour.DiesOnSIGTERM && !p.terminated.IsZero() {
			code := g.behaviour.DieCode
			t.offer(g, add, p.env.podName+" dies on SIGTERM", func(*gang) { t.exit(uid, code) })
			continue
		}
		if learnt := t.tidings(g, p); learnt != nil && g.Outcome == "" && !told {
			told = true
			t.offer(g, add, "hears of the yield", func(g *gang) { g.hear(*learnt, t.env.Now()) })
		}
		if at := g.rendezvousEnds(); !at.IsZero() && !now.Before(at) {
			t.offer(g, add, p.env.podName+" finds no other ranks", func(*gang) { t.exit(uid, 1) })
			continue
		}
		if at, code := g.orphaned(); !g.leads && !at.IsZero() && !now.Before(at) {
			t.offer(g, add, p.env.podName+" leaves without rank 0", func(*gang) { t.exit(uid, code) })
		}
		if t.Offer.Crashes {
			t.fault(g, add, p.env.podName+" crashes", func(*gang) { t.crash(*t.process(uid), 1, false) })
			if p.leads() {
				t.fault(g, add, p.env.podName+" raises an exception", func(*gang) { t.crash(*t.process(uid), 1, true) })
			}
		}
		if t.Offer.Hangs && g.trains && !g.halted && !p.hung && g.Outcome == "" {
			t.fault(g, add, p.env.podName+" hangs", func(g *gang) { t.process(uid).hung = true; g.halt(t.env.Now()) })
		}
	}
	if p, code := t.crashes(g, now); p != nil && g.Outcome == "" {
		uid := p.uid
		t.offer(g, add, fmt.Sprintf("%s fails at step %d", p.env.podName, g.behaviour.CrashAt), func(g *gang) {
			t.crash(*t.process(uid), code, g.behaviour.CrashRecorded)
		})
	}
}

// plainEvents are those of a program without the SDK.
func (t *Trainer) plainEvents(g *gang, now time.Time, add func(event.Event)) {
	over := g.complete(now)
	if g.behaviour.StepTime == 0 && g.trains && !over && g.behaviour.Total > 0 {
		t.offer(g, add, "makes step "+strconv.FormatInt(g.Step+1, 10), func(g *gang) { g.step(t.env.Now()) })
	}
	for i := range t.processes {
		p := &t.processes[i]
		if p.gang != g.number {
			continue
		}
		uid := p.uid
		switch {
		case over:
			t.offer(g, add, p.env.podName+" exits 0", func(*gang) { t.exit(uid, 0) })
		case !p.terminated.IsZero() && !g.behaviour.Deaf:
			code := int32(143)
			if g.behaviour.DiesOnSIGTERM {
				code = g.behaviour.DieCode
			}
			t.offer(g, add, p.env.podName+" dies on SIGTERM", func(*gang) { t.exit(uid, code) })
		}
		if t.Offer.Crashes && !over {
			t.fault(g, add, p.env.podName+" crashes", func(*gang) { t.exit(uid, 1) })
		}
	}
}

// Next is when the passing of time makes more possible.
func (t *Trainer) Next() (soonest time.Time) {
	now := t.env.Now()
	consider := func(at time.Time) {
		if at.After(now) && (soonest.IsZero() || at.Before(soonest)) {
			soonest = at
		}
	}
	for i := range t.processes {
		consider(t.processes[i].readyAt)
	}
	for i := range t.gangs {
		t.gangs[i].times(consider)
	}
	return soonest
}

// times are when something of the attempt is due.
func (g *gang) times(consider func(time.Time)) {
	if g.trains {
		consider(g.since)
		if total := g.behaviour.Total; total > 0 {
			consider(g.reachedAt(total))
		}
		if at := g.behaviour.CrashAt; at > g.base() {
			consider(g.reachedAt(at))
		}
	}
	if g.behaviour.Plain || g.told != nil && !g.leads {
		return
	}
	if g.Running > 0 {
		consider(g.rendezvousEnds())
	}
	if g.leads {
		consider(g.progressDue())
	} else {
		at, _ := g.orphaned()
		consider(at)
		return
	}
	switch {
	case g.told != nil:
		return
	case g.Outcome != "":
		consider(g.resultEnds())
		return
	}
	_, _, at := g.hopeless(time.Time{})
	consider(at)
	if !g.opened {
		consider(g.openEnds())
	}
	if !g.restoreAt.IsZero() && !g.trains {
		consider(g.restoreAt)
		consider(g.restoreAt.Add(restorePatience))
	}
	if g.asked == nil && len(g.flying) == 0 {
		consider(g.saveDue())
	}
	if g.decided {
		consider(g.reachedAt(g.Agreed))
	}
	if len(g.flying) > 0 {
		consider(g.saveEnds())
		consider(g.storeAt())
		consider(g.reachedAt(g.flying[0].step))
	}
}
