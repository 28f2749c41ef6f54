package world

import (
	"encoding/binary"
	"sync"

	"rtj.dev/rtj/test/world/fingerprint"
)

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
	// Coverage is which rules decided, and after which.
	Coverage Coverage
	// Broken is the first promise that was not kept, and Script how.
	Broken *Broken
	Script Script
	// Audited is how many states were explored a second time, from another world with
	// the same fingerprint, and Unsound the first difference; empty: none.
	Audited int
	Unsound string
}

// Options of an exploration.
type Options struct {
	// Workers explore at once; one alone where times are coarse, so that of the worlds
	// that count as the same the same one is explored each time.
	Workers int
	// Audit explores one in so many of the worlds whose fingerprint is known a second
	// time, and compares; 0: none. Worlds with coarse times are not compared: they may
	// differ.
	Audit int
	// Stop ends the exploration once it is true, Progress is told now and then.
	Stop     func() bool
	Progress func(*Exploration)
}

// explorer explores with several workers, which share what is known.
type explorer struct {
	Options
	mu    sync.Mutex
	more  *sync.Cond
	known map[fingerprint.Sum]int32
	// leads are what each state led to, if that is audited.
	leads []lead
	stack []todo
	busy  int
	found Exploration
	cover coverage
}

// todo is a world to be explored: a new state, or another world of one that is known.
type todo struct {
	*World
	state int32
	again bool
}

// Explore tries every order of events of a world, with at most FaultsLeft faults a
// run, until nothing is new or it is stopped.
func Explore(c Config, o Options) *Exploration {
	if c.CoarseTimes {
		o.Audit, o.Workers = 0, 1
	}
	x := &explorer{Options: o, known: map[fingerprint.Sum]int32{}}
	x.more = sync.NewCond(&x.mu)
	x.cover.begin()
	first := New(c)
	first.record = true
	first.faults = c.FaultsLeft
	first.offerFaults(c.FaultsLeft > 0)
	first.queuesReady()
	x.push(first, todo{state: -1})
	var all sync.WaitGroup
	for range max(1, o.Workers) {
		all.Go(x.work)
	}
	all.Wait()
	x.found.States = len(x.known)
	x.found.Left = len(x.stack)
	x.found.Closed = x.found.Broken == nil && x.found.Unsound == "" && len(x.stack) == 0
	x.found.Coverage = x.cover.close()
	return &x.found
}

// push notes that a state led to a world, and keeps that to be explored if it is a new
// one, or is to be audited. It returns the number of the state that the world is in.
func (x *explorer) push(w *World, from todo) (id int32) {
	sum := w.fingerprint()
	decided, calls := w.takeDecided()
	x.mu.Lock()
	defer x.mu.Unlock()
	id, known := x.known[sum]
	if !known {
		id = int32(len(x.known))
		x.known[sum] = id
		x.leads = append(x.leads, lead{})
	}
	x.found.Calls += calls
	x.cover.edge(from.state, id, decided)
	again := known && !from.again && x.Audit > 0 && binary.LittleEndian.Uint64(sum[:])%uint64(x.Audit) == 0
	if !known || again {
		x.stack = append(x.stack, todo{w, id, again})
		x.more.Signal()
	}
	return id
}

// pop waits for a world to explore, and returns one without a world when there is nothing
// more to do. done tells that the caller has explored one since.
func (x *explorer) pop(done bool) (next todo) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if done {
		x.busy--
	}
	over := func() bool { return x.found.Broken != nil || x.found.Unsound != "" }
	for len(x.stack) == 0 && x.busy > 0 && !over() {
		x.more.Wait()
	}
	if len(x.stack) == 0 || over() || x.Stop != nil && x.Stop() {
		x.more.Broadcast()
		return todo{}
	}
	next = x.stack[len(x.stack)-1]
	x.stack[len(x.stack)-1] = todo{}
	x.stack = x.stack[:len(x.stack)-1]
	x.busy++
	return next
}

func (x *explorer) work() {
	done := false
	for {
		next := x.pop(done)
		if done = next.World != nil; !done {
			return
		}
		steps := x.expand(next)
		x.mu.Lock()
		before := x.found.Steps
		x.found.Steps += steps
		x.found.States, x.found.Left = len(x.known), len(x.stack)
		if x.Progress != nil && before/50_000 != x.found.Steps/50_000 {
			x.Progress(&x.found)
		}
		x.mu.Unlock()
	}
}

// expand tries everything that may happen in a world.
func (x *explorer) expand(w todo) (steps int) {
	trials := w.trials()
	if len(trials) == 0 {
		x.rests(w.World)
	}
	led := lead{}
	if x.Audit > 0 {
		led.from = w.Clone()
	}
	for i, t := range trials {
		next := w.World
		if i < len(trials)-1 {
			next = w.Clone()
		}
		next.try(t)
		next, along := next.goAlong()
		steps += 1 + along
		if next.broken != nil {
			x.broke(next)
			return steps
		}
		led.trials, led.to = append(led.trials, t), append(led.to, x.push(next, w))
	}
	if x.Audit > 0 {
		x.audit(w, led)
	}
	return steps
}

// alongAtMost bounds how far a world goes on by itself, since it may go in a circle.
const alongAtMost = 64

// goAlong has happen what alone may happen, and syncs that change nothing, until there
// is a choice.
func (w *World) goAlong() (next *World, steps int) {
	for next = w; next.broken == nil && steps < alongAtMost; steps++ {
		trials := next.trials()
		if len(trials) == 1 {
			next.try(trials[0])
		} else if quiet := next.quiet(trials); quiet != nil {
			next = quiet
		} else {
			break
		}
	}
	return next, steps
}

// rests looks at a state in which nothing may happen any more.
func (x *explorer) rests(w *World) {
	if !w.settled() {
		w.fail(settles, w.unsettled())
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
		x.found.Broken, x.found.Script = w.broken, w.done.script()
	}
	x.more.Broadcast()
}

// fingerprint tells the world apart from all that have another future.
func (w *World) fingerprint() fingerprint.Sum { return w.hash(false).Sum() }

// newHash has taken up nothing yet of the world.
func (w *World) newHash() *fingerprint.Hash {
	return fingerprint.New(w.api, w.running()...)
}

// running are the processes of rtj that do.
func (w *World) running() (names []string) {
	for _, r := range w.runners {
		if r.Running() {
			names = append(names, r.Observer())
		}
	}
	return names
}

// hash takes up what decides the world's future; whole has texts stand as they are.
func (w *World) hash(whole bool) *fingerprint.Hash {
	h := w.newHash()
	h.Whole, h.Coarse = whole, w.config.CoarseTimes
	h.Server(w.api)
	for _, r := range w.runners {
		h.Part(r.Name)
		r.Fingerprint(h)
	}
	h.Part("kueue")
	w.kueue.Fingerprint(h)
	h.Part("cluster")
	w.cluster.Fingerprint(h)
	h.Part("trainer")
	w.trainer.Fingerprint(h)
	h.Part("store")
	w.store.Fingerprint(h)
	h.Part("people")
	h.Int(int64(w.people.acts))
	for _, p := range w.people.plans {
		h.Int(int64(p.again))
	}
	h.Part("faults")
	h.Int(int64(w.faults))
	h.Time(w.healsAt)
	h.Time(w.damagedAt)
	h.Part("promises")
	w.promises.fingerprint(h)
	return h
}

// fingerprint takes up what the promises remember and nothing else tells.
func (p *promises) fingerprint(h *fingerprint.Hash) {
	for _, uid := range p.order {
		l := p.lives[uid]
		if h.Bool(l.gone); l.gone {
			continue
		}
		h.Text(l.name)
		h.Bool(l.rolledBack)
		h.Bool(l.restoreFailed)
		highest := int64(0)
		for n := range l.launched {
			highest = max(highest, n)
		}
		h.Int(highest)
		h.Int(int64(len(l.launched)))
		h.JSON(l.launched[highest])
	}
}
