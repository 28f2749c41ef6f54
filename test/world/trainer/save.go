package trainer

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
)

// nonce of the next save: the same in every world in which the attempt made as many.
func (g *gang) nonce() string {
	g.saves++
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", g.label, g.saves)
	return fmt.Sprintf("%012x", h.Sum64()&(1<<48-1))
}

// begin begins a save of a step. It is stored once the step is applied and the saves
// before it are committed.
func (g *gang) begin(step int64, now time.Time) *save {
	s := save{nonce: g.nonce(), step: step, begun: now, from: now}
	if at := g.reachedAt(step); at.After(now) {
		s.from = at
	}
	for rank := range g.WorldSize {
		objects, ref, size := rankObjects(g.env, &g.behaviour, step, s.nonce, rank)
		s.parts = append(s.parts, objects...)
		s.indexes = append(s.indexes, ref)
		s.bytes += size
	}
	g.flying = append(slices.Clip(g.flying), s)
	g.news = true
	return &g.flying[len(g.flying)-1]
}

// saveDue is when a periodic save is to begin; zero: not by time.
func (g *gang) saveDue() time.Time {
	if g.behaviour.StepTime == 0 {
		return time.Time{}
	}
	if g.lastWish.IsZero() {
		// The first is due an interval after the first step.
		if at := g.reachedAt(g.Step + 1); !at.IsZero() {
			return at.Add(g.env.interval)
		}
		return time.Time{}
	}
	return g.lastWish.Add(g.env.interval)
}

// maySave reports whether a periodic save may begin now.
func (g *gang) maySave(now time.Time) bool {
	if !g.trains || g.halted || g.asked != nil || len(g.flying) > 0 || g.finishing || g.complete(now) || g.behaviour.Silent > 0 {
		return false
	}
	if g.behaviour.StepTime == 0 {
		return g.Step-g.committed() >= max(1, g.behaviour.SaveEvery)
	}
	due := g.saveDue()
	return !due.IsZero() && !now.Before(due)
}

// beginPeriodic begins a periodic save: of the largest step plus one, or where a step
// is an event of this one.
func (g *gang) beginPeriodic(now time.Time) {
	g.advance(now)
	g.lastWish = now
	step := g.Step
	if g.behaviour.StepTime > 0 {
		step++
	}
	if limit := g.limit(); limit >= 0 {
		step = min(step, limit)
	}
	if step > g.committed() {
		g.begin(step, now)
	}
}

// storeAt is when the next part, or the manifest, of the save that is stored is due.
func (g *gang) storeAt() time.Time {
	s := &g.flying[0]
	stored := s.stored
	if g.behaviour.Whole && stored < len(s.parts) {
		stored = len(s.parts) - 1
	}
	return s.from.Add(g.behaviour.SaveTime * time.Duration(stored+1) / time.Duration(len(s.parts)+1))
}

// applied reports whether the step of the save that is stored is.
func (g *gang) applied(now time.Time) bool { return g.stepAt(now) >= g.flying[0].step }

// change replaces the save that is stored.
func (g *gang) change(do func(*save)) {
	g.flying = slices.Clone(g.flying)
	do(&g.flying[0])
}

// storePart stores the next part of the save, or all. The store takes it.
func (t *Trainer) storePart(g *gang) {
	s := g.flying[0]
	for s.stored < len(s.parts) {
		part := s.parts[s.stored]
		if _, err := t.env.Store.Put(g.env.prefix+part.key, part.data); err != nil {
			break
		}
		if s.stored++; !g.behaviour.Whole {
			break
		}
	}
	g.change(func(changed *save) { changed.stored = s.stored })
}

// tear stores half of the parts and kills the attempt's pods.
func (t *Trainer) tear(g *gang) {
	s := g.flying[0]
	for _, part := range s.parts[:len(s.parts)/2] {
		_, _ = t.env.Store.Put(g.env.prefix+part.key, part.data)
	}
	t.killAll(g.number)
}

// commit writes the manifest of the save that is stored. Without an answer it is tried
// again, with the same bytes.
func (t *Trainer) commit(g *gang, answered bool) {
	now := t.env.Now()
	s := g.flying[0]
	if s.manifest == nil {
		s.id, s.manifest = manifest(g.env, &g.behaviour, &s, now.UTC())
	}
	put := t.env.Store.PutLost
	if answered {
		put = func(key string, data []byte) error { _, err := t.env.Store.Put(key, data); return err }
	}
	err := put(g.env.prefix+"manifests/"+s.id+".json", s.manifest)
	g.change(func(changed *save) { changed.id, changed.manifest, changed.lost = s.id, s.manifest, !answered })
	if answered && err == nil {
		g.isCommitted(&s, now)
	}
}

func (g *gang) isCommitted(s *save, now time.Time) {
	g.flying = slices.Clone(g.flying[1:])
	g.Commits = append(slices.Clip(g.Commits), Commit{ID: s.id, Step: s.step, At: now, ForYield: s.yielding})
	g.estimate = now.Sub(s.begun)
	g.lastSave = &checkpoint.Save{Checkpoint: s.id, Step: s.step, Seconds: g.estimate.Round(time.Millisecond).Seconds(), Bytes: s.bytes}
	g.news = true
	switch {
	case s.final:
		g.conclude(checkpoint.ResultFinished, fmt.Sprintf("finished at step %d", s.step), now)
	case s.yielding:
		g.conclude(checkpoint.ResultYielded, fmt.Sprintf("yielded at step %d after %s; committed in %.1f s", g.Agreed, g.Asked, g.estimate.Seconds()), now)
	case len(g.flying) > 0:
		g.flying[0].from = later(g.flying[0].from, now)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// saveEnds is when the save that is stored is given up.
func (g *gang) saveEnds() time.Time {
	s := &g.flying[0]
	switch {
	case s.final:
		return s.begun.Add(finalTime)
	case s.yielding:
		return g.giveUpAt()
	}
	return s.begun.Add(periodicTime)
}

// giveUpSave: the store refused, or did not answer in time.
func (g *gang) giveUpSave(why string, now time.Time) {
	s := g.flying[0]
	g.flying = slices.Clone(g.flying[1:])
	g.news = true
	switch {
	case s.final:
		g.conclude(checkpoint.ResultFailed, "the last checkpoint could not be saved: "+why, now)
	case s.yielding, g.decided && len(g.flying) == 0:
		g.unserviced(why, now)
	case len(g.flying) > 0:
		g.flying[0].from = later(g.flying[0].from, now)
	default:
		g.lastWish = now.Add(min(g.env.interval, retryTime) - g.env.interval)
	}
}

// finish is finish() on every rank: the last save, if there is anything to save.
func (g *gang) finish(now time.Time) {
	g.advance(now)
	g.finishing = true
	step := g.Step
	var kept []save
	for _, s := range g.flying {
		switch {
		case s.step == step:
			s.final = true
			kept = append(kept, s)
		case s.manifest != nil || s.stored == len(s.parts):
			kept = append(kept, s) // its commit is under way
		}
	}
	g.flying = kept
	if len(kept) > 0 && kept[len(kept)-1].final {
		return
	}
	if step <= g.committed() {
		g.conclude(checkpoint.ResultFinished, fmt.Sprintf("finished at step %d", step), now)
		return
	}
	g.begin(step, now).final = true
}
