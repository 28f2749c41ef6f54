package runner

import (
	"slices"
	"time"

	"rtj.dev/rtj/hooks/patch"
	"rtj.dev/rtj/test/world/event"
)

// parentWrites is how many children of one parent are written at once.
const parentWrites = 4

func soonest(times ...time.Time) time.Time { return event.Soonest(times...) }

// due does what the passing of time alone brings about.
func (r *Runner) due() {
	if r.down {
		return
	}
	r.catchUp()
	r.readingsDue()
	r.patchesDue()
	// A parent that is gone is forgotten without further ado.
	gone := func(j *job) bool {
		return j.queued && j.flight == nil && r.views[parents].get(j.Namespace, j.Name) == nil
	}
	if slices.ContainsFunc(r.jobs, gone) {
		for _, j := range slices.Clone(r.jobs) {
			if gone(j) {
				r.begin(j)
			}
		}
	}
}

// Events implements event.Actor.
func (r *Runner) Events(add func(event.Event)) {
	r.due()
	for i, q := range r.late {
		add(event.Event{Name: q.name + " arrives", Do: func() { r.arrive(i) }})
	}
	if r.down {
		add(event.Event{Name: r.Name + ": starts", Do: func() { r.Restart(r.API.Changed) }})
		return
	}
	r.viewEvents(add)
	now := r.Now()
	for _, j := range r.jobs {
		if j.flight != nil {
			r.writeEvents(add, j)
		} else if r.ready(j, now) {
			add(event.Event{Name: r.Name + ": sync " + j.String(), Do: func() { r.begin(j) }})
		}
	}
	for _, of := range r.readings {
		r.readingEvents(add, of)
	}
	for _, p := range r.patching {
		r.patchEvents(add, p)
	}
	if r.Faults {
		add(event.Event{Name: r.Name + ": crashes", Fault: true, Do: r.Crash})
		add(event.Event{Name: r.Name + ": restarts and sees what was", Fault: true, Do: func() { r.Restart(r.before) }})
	}
}

// before is the state of a kind before its last change, if the API server still has
// it.
func (r *Runner) before(name string) int64 {
	changes := r.API.Changes(name, 0)
	if len(changes) == 0 {
		return 0
	}
	return changes[max(0, len(changes)-2)]
}

// viewEvents move the views: one change further, or to the present.
func (r *Runner) viewEvents(add func(event.Event)) {
	if !r.Lag {
		return
	}
	for k := range kindCount {
		name := k.name()
		if r.views[k].revision >= r.API.Changed(name) {
			continue
		}
		changes := r.API.Changes(name, r.views[k].revision)
		if len(changes) > 1 {
			next := changes[0]
			add(event.Event{Name: r.Name + ": sees a change of " + name, Do: func() { r.see(k, next) }})
		}
		last := changes[len(changes)-1]
		add(event.Event{Name: r.Name + ": sees " + name, Weight: 4, Do: func() { r.see(k, last) }})
	}
}

// writeEvents are the requests that a sync may send now.
func (r *Runner) writeEvents(add func(event.Event), j *job) {
	f := j.flight
	for i, a := range f.pending {
		if i > 0 && (f.oneAfterTheOther || r.InOrder || i >= parentWrites) {
			break
		}
		name := r.nameOf(a)
		add(event.Event{Name: name, Do: func() { r.write(j, i, works) }})
		if r.Faults {
			for _, fault := range faults {
				add(event.Event{Name: name + " " + fault.name, Fault: true, Do: func() { r.write(j, i, fault.fate) }})
			}
		}
	}
}

// readingEvents end a reading of the store, or have it go on.
func (r *Runner) readingEvents(add func(event.Event), of *reading) {
	add(event.Event{Name: r.Name + ": reads the store for " + of.name(), Weight: 4, Do: func() { r.readAll(of) }})
	add(event.Event{Name: r.Name + ": reads on for " + of.name(), Do: func() { r.readOn(of) }})
}

// patchEvents are the requests for a patch.
func (r *Runner) patchEvents(add func(event.Event), p *patching) {
	switch step := p.making.Next(); {
	case !p.busy || step == "":
	case step == patch.Send:
		name := r.nameOfPatch(p)
		add(event.Event{Name: name, Do: func() { r.sendPatch(p, works) }})
		if r.Faults {
			for _, fault := range faults {
				add(event.Event{Name: name + " " + fault.name, Fault: true, Do: func() { r.sendPatch(p, fault.fate) }})
			}
		}
	default:
		name := r.Name + ": look before " + p.making.Patch.Name + " " + p.Namespace + "/" + p.Name
		add(event.Event{Name: name, Do: func() { r.look(p, works) }})
		if r.Faults {
			add(event.Event{Name: name + " is refused", Fault: true, Do: func() { r.look(p, refused) }})
		}
	}
}

// Retries tells whether something waits to be tried again: a sync that failed, or patches
// that could not be made.
func (r *Runner) Retries() bool {
	return !r.down && (slices.ContainsFunc(r.jobs, func(j *job) bool { return j.memory.Failures > 0 && (j.queued || !j.alarm.IsZero()) }) ||
		slices.ContainsFunc(r.patching, func(p *patching) bool { return p.pace.Again }))
}

// Next implements event.Actor.
func (r *Runner) Next() time.Time {
	if r.down {
		return time.Time{}
	}
	now := r.Now()
	next := r.readingsNext()
	for _, j := range r.jobs {
		if j.flight != nil {
			continue
		}
		at := j.alarm
		if j.queued {
			at = now
		}
		if at.IsZero() {
			continue
		}
		if wait := r.outstanding(j, now); wait > 0 {
			at = later(at, now.Add(wait))
		}
		next = soonest(next, later(at, j.memory.NotBefore))
	}
	for _, p := range r.patching {
		if !p.busy {
			next = soonest(next, p.until)
		}
	}
	if !next.After(now) {
		return time.Time{} // it is offered already
	}
	return next
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
