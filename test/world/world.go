package world

import (
	"fmt"
	"strings"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
)

// World is everything that there is. It is for one goroutine.
type World struct {
	config Config
	clock  *clock
	parts

	promises *promises
	broken   *Broken
	// steps counts events and passings of time; done are they, if recorded.
	steps  int
	record bool
	done   *past
	// calls counts those of the hook that might have gone through its messages, and
	// decisions is what was decided since somebody asked.
	calls     int
	decisions decisions
	// calmed tells that the faults have stopped, and faults how many more there may be
	// in an exploration.
	calmed bool
	faults int
	// healsAt is when failures that last end in an exploration; zero: there is none.
	healsAt time.Time
	// damagedAt is when an object of the store was damaged last.
	damagedAt time.Time
	// rotten are objects of the store whose bytes changed without a change of size and
	// ETag, with the processes of rtj that ran then and may have read them before.
	rotten map[string][]string
	// unseenAt are the moments at which processes were left that nobody sees, or that Jobs
	// do not tell of, since their controllers were late.
	unseenAt []time.Time
	// deletedByOthers are jobs by UID of which somebody else deleted a Workload.
	deletedByOthers map[string]bool
	// startedByHand are the JobSets, by namespace and name, that a person started.
	startedByHand map[string]bool
	// turns is when each event happened last, in a world that is calm, and turnOf where
	// the events have theirs, by name.
	turns  []int
	turnOf map[string]int
	// weights of kinds of events in the random choice, as far as they were drawn.
	weights map[string]float64
	// offers are what may happen now.
	offers []offer
}

// Now is the world's time.
func (w *World) Now() time.Time { return w.clock.at }

// Broken is the first promise that was not kept; nil: all were.
func (w *World) Broken() *Broken { return w.broken }

// pass lets time pass.
func (w *World) pass(d time.Duration) {
	if d <= 0 {
		return
	}
	waits := w.waits()
	if !waits && d >= time.Second && w.controllersWait() {
		w.unseenAt = append(w.unseenAt, w.clock.at.Add(d))
	}
	w.note(passing(d))
	w.guard("the clock", func() { w.clock.at = w.clock.at.Add(d) })
	if waits && w.broken == nil {
		w.promises.waited(w, d)
	}
}

// waits tells whether everybody waits for the time, or for the store: instances of rtj
// are up and see what is, and all controllers have done what there is to do.
func (w *World) waits() bool {
	for c := range w.events() {
		if c.helps && !strings.HasPrefix(c.Name, "store: ") {
			return false
		}
	}
	return true
}

// controllersWait tells whether time passes for the controllers of JobSets and Jobs
// while they have something to do: what these show is then of long ago.
func (w *World) controllersWait() bool {
	for c := range w.events() {
		if c.helps && (strings.HasPrefix(c.Name, "job: ") || strings.HasPrefix(c.Name, "jobset: ")) {
			return true
		}
	}
	return false
}

func (w *World) note(line string) {
	w.steps++
	if w.record {
		w.done = &past{w.done, line}
	}
}

// guard does something; a panic in it is a promise broken.
func (w *World) guard(what string, do func()) {
	if w.broken != nil {
		return
	}
	if !w.config.LetPanic {
		defer func() {
			if p := recover(); p != nil {
				w.fail(nothingPanics, fmt.Sprintf("%s: %v", what, p))
			}
		}()
	}
	do()
	w.promises.look(w)
}

// fail notes that a promise was not kept.
func (w *World) fail(promise, what string) {
	if w.broken == nil {
		w.broken = &Broken{Promise: promise, What: what, At: w.clock.at, Step: w.steps}
	}
}

// traced has the offers and the promises see every write.
func (w *World) traced() {
	w.api.Trace = func(write apiserver.Write) {
		w.written(write.Kind())
		w.promises.wrote(w, write)
	}
}

// pause is how long it is until a moment, and never nothing.
func (w *World) pause(until time.Time) time.Duration {
	return max(until.Sub(w.clock.at), time.Millisecond)
}
