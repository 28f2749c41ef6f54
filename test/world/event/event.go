// Package event says what can happen next in a simulated world. Everything that
// acts in it, from Kueue to a person, offers events; the engine chooses one and
// does it, so that every order in which things can happen is an order of events.
package event

import "time"

// Event is one thing that may happen now.
type Event struct {
	// Name tells it apart from all others that may happen now. It is the same
	// wherever the same thing may happen, so that a run is replayed, and a failure
	// shrunk, by names: "kueue: admit team/llama-w1".
	Name string
	// Fault says that it does not happen where everything works.
	Fault bool
	// Weight in a random choice; 0 means 1.
	Weight int
	// Do makes it happen.
	Do func()
}

// Actor is a part of the world that acts.
type Actor interface {
	// Events adds what may happen now, in an order that is the same for equal worlds.
	Events(add func(Event))
	// Next is when the passing of time makes more possible or due, if nothing else
	// happens; zero: never.
	Next() time.Time
}

// Soonest returns the earliest of the times that are not zero.
func Soonest(times ...time.Time) (soonest time.Time) {
	for _, t := range times {
		if !t.IsZero() && (soonest.IsZero() || t.Before(soonest)) {
			soonest = t
		}
	}
	return soonest
}
