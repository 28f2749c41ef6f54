package world

import (
	"iter"
	"slices"
	"strings"
	"time"

	"rtj.dev/rtj/test/world/event"
	"rtj.dev/rtj/test/world/jobs"
	"rtj.dev/rtj/test/world/kueue"
	"rtj.dev/rtj/test/world/runner"
)

// offer is what an actor may do now and when more, kept until something happens that
// it depends on.
type offer struct {
	event.Actor
	// kinds of objects that the actor looks at; nil: it looks at what exists, is to go
	// and owns what, of all kinds.
	kinds []string
	// timeless: the passing of time changes nothing before the actor says that it does.
	timeless bool
	// looksAt are the actors at whose state it looks beside its own, by place.
	looksAt []int

	// changed is the revision of the last change of one of the kinds, and acts counts
	// the events of the actor that happened.
	changed int64
	acts    int
	// known says that what follows was asked for, upon this.
	known   bool
	upon    stamp
	at      time.Time
	choices []choice
	next    time.Time
	// add adds to the choices.
	add func(event.Event)
}

// stamp is what an offer depends on, beside the time: while that is the same, so is
// the offer.
type stamp struct {
	revision int64
	acts     int
}

// choice is an event that may happen now.
type choice struct {
	event.Event
	// by is the place of the actor.
	by int
	// helps tells whether it brings a calm world on.
	helps bool
	// weight of the random choice; negative: not drawn yet. turn is the event's place
	// in the turns; negative: not known yet.
	weight float64
	turn   int
}

// offersOf are the actors in the order in which their events are offered.
func offersOf(p *parts) []offer {
	var offers []offer
	for _, r := range p.runners {
		offers = append(offers, offer{Actor: r, kinds: runner.Kinds})
	}
	n := len(offers)
	const cluster, trainer, store = 2, 3, 4 // their places in the list below
	offers = append(offers,
		offer{Actor: p.people, timeless: true, kinds: peopleLookAt, looksAt: []int{n + trainer}},
		offer{Actor: p.kueue, timeless: true, kinds: kueue.Kinds},
		offer{Actor: p.cluster, kinds: jobs.Kinds, looksAt: []int{n + trainer}},
		offer{Actor: p.trainer, kinds: []string{}, looksAt: []int{n + cluster, n + store}},
		offer{Actor: p.store, kinds: []string{}, looksAt: []int{n + trainer}},
		offer{Actor: p.collector, timeless: true},
	)
	for i := range offers {
		for _, kind := range offers[i].kinds {
			offers[i].changed = max(offers[i].changed, p.api.Changed(kind))
		}
	}
	return offers
}

// written notes a write of an object of a kind.
func (w *World) written(kind string) {
	for place := range w.offers {
		if o := &w.offers[place]; slices.Contains(o.kinds, kind) {
			o.changed = w.api.Revision()
		}
	}
}

// stampOf is what an offer depends on, as it is now.
func (w *World) stampOf(o *offer) stamp {
	s := stamp{o.changed, o.acts}
	if o.kinds == nil {
		s.revision = w.api.Existence()
	}
	for _, other := range o.looksAt {
		s.acts += w.offers[other].acts
	}
	return s
}

// offer returns what an actor offers now.
func (w *World) offer(place int) *offer {
	o := &w.offers[place]
	upon := w.stampOf(o)
	if !o.known || o.upon != upon || w.agedSince(o) {
		o.choices = o.choices[:0]
		if o.add == nil {
			o.add = func(e event.Event) {
				o.choices = append(o.choices, choice{Event: e, by: place, helps: w.helps(e), weight: -1, turn: -1})
			}
		}
		o.Events(o.add)
		// What it did of itself meanwhile, such as looking, is no news to it.
		o.next = o.Next()
		o.known, o.upon, o.at = true, w.stampOf(o), w.clock.at
	}
	return o
}

// agedSince tells whether so much time has passed that an offer may be another.
func (w *World) agedSince(o *offer) bool {
	if o.timeless {
		return !o.next.IsZero() && !w.clock.at.Before(o.next)
	}
	return !w.clock.at.Equal(o.at)
}

// changed has all offers be asked for anew: something was done that is no event.
func (w *World) changed() {
	for i := range w.offers {
		w.offers[i].known = false
	}
}

// events are all that may happen now, faults included.
func (w *World) events() iter.Seq[*choice] {
	return func(yield func(*choice) bool) {
		for place := range w.offers {
			choices := w.offer(place).choices
			for i := range choices {
				if !yield(&choices[i]) {
					return
				}
			}
		}
	}
}

// next is when the passing of time makes more possible; zero: never.
func (w *World) next() (soonest time.Time) {
	for place := range w.offers {
		soonest = event.Soonest(soonest, w.offer(place).next)
	}
	return soonest
}

// do has an event happen and looks whether all promises are kept.
func (w *World) do(c choice) {
	w.offers[c.by].acts++
	w.note(c.Name)
	w.noted(c.Name)
	w.guard(c.Name, c.Do)
}

// helps tells whether an event brings a calm world on: it is no fault, nobody's wish,
// and no second leader's start.
func (w *World) helps(e event.Event) bool {
	if e.Fault || strings.HasPrefix(e.Name, "user: ") {
		return false
	}
	return !w.calmed || !strings.HasSuffix(e.Name, ": starts") || strings.HasPrefix(e.Name, w.runners[0].Name+":")
}
