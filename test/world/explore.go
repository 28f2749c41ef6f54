package world

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"rtj.dev/rtj/test/world/fingerprint"
)

// Reductions are why [Explore] need not try every order. Each names events that
// commute with those they are not tried against, or a freedom that is left to the
// random runs.
var Reductions = []string{
	"time passes only when nothing else may happen, and then to the next moment at which something is due; an event that is later than that is one of the faults",
	"what the JobSet and Job controllers, scheduler, kubelets and garbage collector may do is done in one order among themselves: each writes objects of its own, and the others react to what stands in the end; against rtj, Kueue, the workers and people every order is tried",
	"rtj's views follow at once before each sync; a sync by an older view is one of the faults",
	"states are equal if they differ only in UIDs, resourceVersions and the date",
}

// Exploration is what an exploration found.
type Exploration struct {
	// States are different ones, Steps the events tried, Calls those of the hook.
	States, Steps, Calls int
	// Ends are states in which everything rests.
	Ends int
	// Closed tells that there is nothing more to explore.
	Closed bool
	// Rules counts the decisions of every "table rule", Pairs those of a rule after
	// another of the same table and job: "table rule > rule".
	Rules, Pairs map[string]int
	// Broken is the first promise that was not kept, and Script how.
	Broken *Broken
	Script Script
	Config Config
}

// explorer explores with several workers, which share what is known.
type explorer struct {
	config Config
	mu     sync.Mutex
	more   *sync.Cond
	seen   map[fingerprint.Sum]struct{}
	stack  []*World
	busy   int
	found  Exploration
	stop   func() bool
}

// Explore tries every order of events of a world, with at most one fault a run,
// until nothing is new or stop tells to. progress, if set, is told now and then.
func Explore(c Config, workers int, stop func() bool, progress func(*Exploration)) *Exploration {
	x := &explorer{config: c, seen: map[fingerprint.Sum]struct{}{}, stop: stop}
	x.more = sync.NewCond(&x.mu)
	x.found = Exploration{Rules: map[string]int{}, Pairs: map[string]int{}, Config: c}
	first := New(c)
	first.record = true
	first.faults = 1
	first.offerFaults(true)
	x.push(first)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() { x.work(progress) })
	}
	all.Wait()
	x.found.States = len(x.seen)
	x.found.Closed = x.found.Broken == nil && len(x.stack) == 0
	return &x.found
}

// push keeps a world to be explored if it is a new one. The lock is not held.
func (x *explorer) push(w *World) {
	sum := w.fingerprint()
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, known := x.seen[sum]; known {
		return
	}
	x.seen[sum] = struct{}{}
	x.stack = append(x.stack, w)
	x.more.Signal()
}

// pop waits for a world; nil when there is nothing more to do.
func (x *explorer) pop(done *World) *World {
	x.mu.Lock()
	defer x.mu.Unlock()
	if done != nil {
		x.busy--
	}
	for len(x.stack) == 0 && x.busy > 0 && x.found.Broken == nil {
		x.more.Wait()
	}
	if len(x.stack) == 0 || x.found.Broken != nil || x.stop() {
		x.more.Broadcast()
		return nil
	}
	w := x.stack[len(x.stack)-1]
	x.stack = x.stack[:len(x.stack)-1]
	x.busy++
	return w
}

func (x *explorer) work(progress func(*Exploration)) {
	var w *World
	for {
		if w = x.pop(w); w == nil {
			return
		}
		steps := x.expand(w)
		x.mu.Lock()
		before := x.found.Steps
		x.found.Steps += steps
		x.found.States = len(x.seen)
		if progress != nil && before/100_000 != x.found.Steps/100_000 {
			progress(&x.found)
		}
		x.mu.Unlock()
	}
}

// expand tries everything that may happen in a world.
func (x *explorer) expand(w *World) (steps int) {
	choices := w.choices()
	if len(choices) == 0 {
		x.rests(w)
		return 0
	}
	for i, name := range choices {
		next := w
		if i < len(choices)-1 {
			next = w.Clone()
		}
		next.choose(name)
		steps++
		x.count(next)
		if next.broken != nil {
			x.broke(next)
			return steps
		}
		x.push(next)
	}
	return steps
}

// rests looks at a state in which nothing may happen any more.
func (x *explorer) rests(w *World) {
	if !w.settled() {
		w.fail("once faults stop, the world settles", w.unsettled())
	} else {
		w.promises.settled(w)
	}
	x.mu.Lock()
	x.found.Ends++
	x.mu.Unlock()
	if w.broken != nil {
		x.broke(w)
	}
}

func (x *explorer) broke(w *World) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.found.Broken == nil {
		x.found.Broken, x.found.Script = w.broken, w.done
	}
	x.more.Broadcast()
}

// count adds what the last step decided.
func (x *explorer) count(w *World) {
	decided, calls := w.takeDecided()
	if calls == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.found.Calls += calls
	for _, rule := range decided {
		if strings.Contains(rule, " > ") {
			x.found.Pairs[rule]++
		} else {
			x.found.Rules[rule]++
		}
	}
}

// choices are the events to be tried, by name, in a stable order: those that the
// reductions leave.
func (w *World) choices() (names []string) {
	byThemselves := false
	for e := range w.events() {
		switch {
		case e.Fault && w.faults == 0:
			continue
		case e.Fault:
		case settlesByItself(e.Name):
			if byThemselves {
				continue
			}
			byThemselves = true
		}
		names = append(names, e.Name)
	}
	if next := w.next(); !next.IsZero() && (!w.free() || w.faults > 0) {
		names = append(names, passing(w.pause(next)))
	}
	return names
}

// free tells whether something may happen before time passes.
func (w *World) free() bool {
	for e := range w.events() {
		if e.helps {
			return true
		}
	}
	return false
}

// settlesByItself tells whether an event is one of those whose order among
// themselves makes no difference.
func settlesByItself(name string) bool {
	who, _, _ := strings.Cut(name, ": ")
	switch who {
	case "jobset", "job", "scheduler", "kubelet", "collector", "namespace":
		return true
	}
	return false
}

// choose has one of the choices happen, and counts the fault if it is one.
func (w *World) choose(name string) {
	if d, ok := timeOf(name); ok {
		if w.free() {
			w.faults--
		}
		w.pass(d)
		return
	}
	for e := range w.events() {
		if e.Name == name {
			if e.Fault {
				w.faults--
			}
			w.do(*e)
			return
		}
	}
	w.fail("clones offer the same events", fmt.Sprintf("%q is not offered", name))
}

// Summary of an exploration for people, in lines.
func (x *Exploration) Summary() (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(x.Rules)) {
		lines = append(lines, fmt.Sprintf("%8d  %s", x.Rules[name], name))
	}
	return lines
}

// fingerprint tells the world apart from all that have another future.
func (w *World) fingerprint() fingerprint.Sum {
	h := fingerprint.New(w.api)
	for _, r := range w.runners {
		r.Fingerprint(h)
	}
	w.kueue.Fingerprint(h)
	w.cluster.Fingerprint(h)
	w.trainer.Fingerprint(h)
	w.store.Fingerprint(h)
	h.Int(int64(w.people.acts))
	for _, p := range w.people.plans {
		h.Int(int64(p.again))
	}
	h.Int(int64(w.faults))
	return h.Sum()
}
