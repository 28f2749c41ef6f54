package edge

import (
	"time"

	"rtj.dev/rtj/compose"
)

// readings is how often one answer may wait for the store.
const readings = 2

// Answering is one answer on its way: a decision that is made again when the
// decision itself made something more known, a reading of the store, or why a
// JobSet is refused.
type Answering struct {
	// Observation that is decided upon; its time, catalog and launch probe are
	// filled in here.
	Observation *compose.Observation
	// Decision is the newest.
	Decision *compose.Decision

	asked Asked
	place Place
	// reading is the one that is waited for, and read how many were.
	reading *Reading
	read    int
	// tried says that the dry run was looked at, which comes last.
	tried bool
}

// Asked is what is asked for, and what can be done for it.
type Asked struct {
	// Finalizing asks the finalize hook; else the sync hook.
	Finalizing bool
	// Launches says that the creation of a JobSet can be tried.
	Launches bool
	// Told says that somebody is told of news, such as that a patch failed.
	Told bool
}

// Need is what an answer waits for. With neither, it is made.
type Need struct {
	// Reading is to begin now: see [Answering.Waited].
	Reading *Reading
	// Launch is a child whose creation is to be tried now: see [Answering.Tried].
	Launch *compose.Child
}

// Decide asks the core.
func Decide(o *compose.Observation, finalizing bool) *compose.Decision {
	if finalizing {
		return compose.Finalize(o)
	}
	return compose.Sync(o)
}

// Begin decides at one instant: a reading that it makes begins after an end that it
// saw, and so shows all that was committed before.
func (m *Memory) Begin(o *compose.Observation, asked Asked, now time.Time) *Answering {
	o.Now = now
	a := &Answering{Observation: o, asked: asked, place: PlaceOf(o.Parent)}
	a.decide(m)
	return a
}

func (a *Answering) decide(m *Memory) {
	o := a.Observation
	o.Catalog = m.SnapshotOf(a.place)
	o.Launch = m.launch.result
	a.Decision = Decide(o, a.asked.Finalizing)
	m.becomesDue(a.Decision.Catalog.Recheck, o.Now)
}

// Next is what the answer waits for now.
func (a *Answering) Next(m *Memory, now time.Time) Need {
	if a.read < readings {
		if a.reading = m.beginReading(a.place, a.Decision.Catalog, Include(a.Observation.Parent), now); a.reading != nil {
			return Need{Reading: a.reading}
		}
		a.read = readings
	}
	if a.tried {
		return Need{}
	}
	a.tried = true
	o := a.Observation
	if o.Catalog != nil && m.mustWait(a.place, a.Decision.Catalog, o.Now) {
		// As if the store had not been read, until the check is made.
		unchecked := *o.Catalog
		unchecked.ListedAt = time.Time{}
		o.Catalog = &unchecked
		a.Decision = Decide(o, a.asked.Finalizing)
		// The check may end before this answer is given, and is then no reason any
		// more to look again, although nothing was decided upon it.
		a.Decision.ResyncAfter = soonest(a.Decision.ResyncAfter, lookAgain)
		return Need{}
	}
	if a.asked.Launches && m.launchDue(a.Decision.Launch, o.Now) {
		return Need{Launch: a.Decision.Launch}
	}
	return Need{}
}

// Waited says that the reading ended, or that it was waited for long enough: then
// it goes on, and the answer is given without.
func (a *Answering) Waited(m *Memory) {
	if !m.stopWaiting(a.reading) {
		a.read = readings
		return
	}
	a.read++
	a.decide(m)
}

// Tried takes what the dry run of the creation answered; nil: it is not known.
func (a *Answering) Tried(m *Memory, probe *compose.LaunchProbe) {
	if probe != nil && m.setProbe(a.Decision.Launch.Name, probe) {
		a.decide(m)
	}
}

// ResyncAfter is when to answer again, once the answer is made; 0: not by itself.
func (a *Answering) ResyncAfter(m *Memory) time.Duration {
	o, d := a.Observation, a.Decision
	resync := soonest(d.ResyncAfter, m.readingAgain(a.place, d.Catalog, o.Now), m.launchAgain(o.Now))
	if again := m.patchesAgain(len(d.Patches) > 0, o.Now); !a.asked.Told {
		resync = soonest(resync, again)
	}
	return resync
}

const (
	// How soon a runner that is not told of news looks whether patches were made.
	firstPatchLook = 2 * time.Second
	maxPatchLook   = 30 * time.Second
)

// patchesAgain is when to decide again after an answer with patches: one that
// failed changes nothing, so nothing else may come to cause it. It waits longer
// the longer patches are wanted in a row; 0: nobody has to.
func (m *Memory) patchesAgain(wanted bool, now time.Time) time.Duration {
	if !wanted {
		m.patchesSince = time.Time{}
		return 0
	}
	if m.patchesSince.IsZero() {
		m.patchesSince = now
	}
	return min(max(now.Sub(m.patchesSince)/4, firstPatchLook), maxPatchLook)
}

// soonest returns the smallest of the delays that are not 0.
func soonest(delays ...time.Duration) time.Duration {
	var least time.Duration
	for _, d := range delays {
		if d > 0 && (least == 0 || d < least) {
			least = d
		}
	}
	return least
}
