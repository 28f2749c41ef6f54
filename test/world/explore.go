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
	"what the JobSet and Job controllers, scheduler, kubelets, garbage collector, workers and store may do is done in one order among themselves: each writes objects of its own, and the others react to what stands in the end; against rtj, Kueue and people every order is tried",
	"of these, what rtj cannot see, neither in JobSets and Jobs nor in the store nor by a LIST of pods, happens together with the next that it can",
	"the children of one answer are written one after the other, though several may be on their way: they are different objects",
	"the requests of a sync and its patches follow each other; that anything else happens between two of them is one of the faults",
	"rtj's views follow at once before each sync; a sync by an older view is one of the faults",
	"states are equal if they differ only in UIDs, resourceVersions and the date",
}

// Exploration is what an exploration found.
type Exploration struct {
	// States are different ones, Steps the events tried, Calls those of the hook.
	States, Steps, Calls int
	// Left are states that are known and not explored yet.
	Left int
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
}

// explorer explores with several workers, which share what is known.
type explorer struct {
	mu    sync.Mutex
	more  *sync.Cond
	seen  map[fingerprint.Sum]struct{}
	stack []*World
	busy  int
	found Exploration
	stop  func() bool
}

// Explore tries every order of events of a world, with at most FaultsLeft faults a
// run, until nothing is new or stop tells to. progress, if set, is told now and then.
func Explore(c Config, workers int, stop func() bool, progress func(*Exploration)) *Exploration {
	x := &explorer{seen: map[fingerprint.Sum]struct{}{}, stop: stop}
	x.more = sync.NewCond(&x.mu)
	x.found = Exploration{Rules: map[string]int{}, Pairs: map[string]int{}}
	first := New(c)
	first.record = true
	first.faults = c.FaultsLeft
	first.offerFaults(c.FaultsLeft > 0)
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
		x.found.States, x.found.Left = len(x.seen), len(x.stack)
		if progress != nil && before/20_000 != x.found.Steps/20_000 {
			progress(&x.found)
		}
		x.mu.Unlock()
	}
}

// expand tries everything that may happen in a world.
func (x *explorer) expand(w *World) (steps int) {
	trials := w.trials()
	if len(trials) == 0 {
		x.rests(w)
		return 0
	}
	for i, t := range trials {
		next := w
		if i < len(trials)-1 {
			next = w.Clone()
		}
		next.try(t)
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

// trial is what is tried in a state: an event by its name, or time that passes.
type trial struct {
	name  string
	fault bool
}

// trials are what the reductions leave, in a stable order.
func (w *World) trials() (list []trial) {
	amid := ""
	for e := range w.events() {
		if !e.Fault && midSync(e.Name) {
			amid = e.Name
			list = append(list, trial{name: amid})
			break
		}
	}
	byThemselves, free := false, amid != ""
	for e := range w.events() {
		// Anything else in the middle of a sync counts as a fault.
		fault := e.Fault || amid != ""
		if e.Name == amid || fault && w.faults == 0 {
			continue
		}
		if e.helps {
			free = true
			if settlesByItself(e.Name) {
				if byThemselves {
					continue
				}
				byThemselves = true
			}
		}
		list = append(list, trial{e.Name, fault})
	}
	if next := w.next(); !next.IsZero() && (!free || w.faults > 0) {
		list = append(list, trial{passing(w.pause(next)), free})
	}
	return list
}

// midSync tells whether an event is a request of a sync that began, or of its patches.
func midSync(name string) bool {
	who, what, _ := strings.Cut(name, ": ")
	return strings.HasPrefix(who, "rtj-") && !strings.HasPrefix(what, "sync ") && what != "starts"
}

// settlesByItself tells whether an event is one of those whose order among
// themselves makes no difference.
func settlesByItself(name string) bool {
	who, _, _ := strings.Cut(name, ": ")
	switch who {
	case "jobset", "job", "scheduler", "kubelet", "nodes", "podgc", "taints", "collector", "namespace", "trainer", "store":
		return true
	}
	return false
}

// try has one of the trials happen, and counts the fault if it is one.
func (w *World) try(t trial) {
	if t.fault {
		defer func() {
			if w.faults--; w.faults == 0 {
				w.offerFaults(false)
			}
		}()
	}
	if d, ok := timeOf(t.name); ok {
		w.pass(d)
		return
	}
	for e := range w.events() {
		if e.Name == t.name {
			before := w.visible()
			w.do(*e)
			if !t.fault && settlesByItself(t.name) {
				w.goOn(before)
			}
			return
		}
	}
	w.fail("clones offer the same events", fmt.Sprintf("%q is not offered", t.name))
}

// sight is what rtj can see of what happens by itself, and its LISTs.
type sight struct{ jobSets, jobs, store, pods int64 }

func (w *World) visible() sight {
	s := sight{jobSets: w.api.Changed("JobSet"), jobs: w.api.Changed("Job"), store: w.store.Revision()}
	for _, pod := range w.api.List("Pod") {
		if mayRun(pod) {
			s.pods++
		}
	}
	return s
}

// goOn has what settles by itself go on until rtj could see that it did.
func (w *World) goOn(before sight) {
	for w.broken == nil && w.visible() == before {
		more := false
		for e := range w.events() {
			if more = !e.Fault && settlesByItself(e.Name); more {
				w.do(*e)
				break
			}
		}
		if !more {
			return
		}
	}
}

// Summary of an exploration for people, in lines: how often each rule decided, then how
// often each came after another.
func (x *Exploration) Summary() (lines []string) {
	for _, counts := range []map[string]int{x.Rules, x.Pairs} {
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			lines = append(lines, fmt.Sprintf("%8d  %s", counts[name], name))
		}
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
