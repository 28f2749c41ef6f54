package world

import (
	"math/rand/v2"
	"strings"
	"time"

	"rtj.dev/rtj/test/world/event"
)

// Result is what became of a run.
type Result struct {
	Seed uint64
	// Broken is the promise that was not kept; nil: all were.
	Broken *Broken
	// Events happened, with so many Calls of the hook; Lives is the number of jobs that
	// were created, and Attempts that of those whose workers started.
	Events, Calls, Lives, Attempts int
}

// Run runs the world of a seed: chaos, then calm, in which the world has to settle.
func Run(seed uint64) Result { return run(drawn(seed), false).result() }

func run(c Config, record bool) *World {
	w := New(c)
	w.record = record
	w.chaos()
	w.calm()
	return w
}

// Shrink runs the seed again and returns a short script that breaks the same
// promise; nil if none is broken.
func Shrink(seed uint64, budget int, progress func(length int)) (Script, *Broken) {
	c := drawn(seed)
	w := run(c, true)
	if w.broken == nil {
		return nil, nil
	}
	broken := w.broken
	short := shrink(w.done.script(), budget, func(s Script) bool {
		replay := Replay(c, s)
		if replay == nil || replay.Promise != w.broken.Promise {
			return false
		}
		broken = replay
		return true
	}, progress)
	return short, broken
}

// Replay does what a script says in a new world, and returns the promise that is
// not kept; nil: all are.
func Replay(c Config, s Script) *Broken {
	w := New(c)
	w.perform(s)
	if w.broken == nil {
		w.calm()
	}
	return w.broken
}

// chaos has events happen at random. How likely each kind is, faults above all, is
// drawn anew for each world (swarm testing, Groce et al. 2012): what never happens
// in one happens often in another.
func (w *World) chaos() {
	r := Random(w.config.Seed, "chaos")
	for range w.config.Chaos {
		if w.broken != nil {
			return
		}
		pass := 0.0
		next := w.next()
		if !next.IsZero() {
			pass = w.weight("clock +") * 0.5
		}
		total := pass
		for c := range w.events() {
			if c.weight < 0 {
				c.weight = w.weightOf(c.Event)
			}
			total += c.weight
		}
		if total == 0 {
			return
		}
		pick := r.Float64() * total
		if pick < pass {
			w.pass(until(r, w.clock.at, next))
			continue
		}
		w.do(w.pick(pick - pass))
	}
}

// pick returns the event that a number between 0 and the sum of all weights is for.
func (w *World) pick(at float64) (picked choice) {
	for c := range w.events() {
		if picked = *c; at < c.weight {
			break
		}
		at -= c.weight
	}
	return picked
}

// until is how much time passes: to the next moment at which something is due, or
// less, or somewhat more, in whole milliseconds.
func until(r *rand.Rand, now, next time.Time) time.Duration {
	d := max(next.Sub(now), time.Millisecond)
	switch r.IntN(8) {
	case 0:
		d = time.Duration(r.Int64N(int64(d) + 1))
	case 1:
		d += time.Duration(r.Int64N(int64(d) + int64(time.Second)))
	}
	return max(d.Round(time.Millisecond), time.Millisecond)
}

// weightOf an event in the random choice.
func (w *World) weightOf(e event.Event) float64 {
	weight := w.weight(e.Name) * float64(max(e.Weight, 1))
	if e.Fault {
		weight *= w.config.Faults
	}
	return weight
}

// weight of a kind of event in this world.
func (w *World) weight(name string) float64 {
	class := class(name)
	weight, ok := w.weights[class]
	if !ok {
		weight = among(Random(w.config.Seed, "weight of "+class), 0.1, 1, 1, 1, 4)
		if strings.HasPrefix(class, "user: ") {
			weight *= 0.1
		}
		if w.weights == nil {
			w.weights = map[string]float64{}
		}
		w.weights[class] = weight
	}
	return weight
}

// class is the kind of an event by its name: who, and the first word of what.
func class(name string) string {
	who, what, ok := strings.Cut(name, ": ")
	if !ok {
		return who
	}
	what, _, _ = strings.Cut(what, " ")
	return name[:len(who)+len(": ")+len(what)]
}

// patience is how long a world without faults may take to settle, and calmEvents how
// many events.
const (
	patience   = 12 * time.Hour
	calmEvents = 20_000
)

// calm ends the faults, and the world has to settle as the specs ask; then people put
// right what only they can, and it has to settle once more, with every job at its end.
func (w *World) calm() {
	if w.broken != nil {
		return
	}
	w.settleDown()
	w.settle()
	if w.broken != nil || w.config.Explored {
		return
	}
	w.people.putRight()
	w.changed()
	w.settle()
}

// settle has everything happen that may, in turn, without faults, and time pass only
// when nothing else happens, until nothing does. Then the world has to be as the
// specs ask.
func (w *World) settle() {
	end := w.clock.at.Add(patience)
	for n := 0; w.broken == nil; n++ {
		if w.settled() {
			w.promises.settled(w)
			return
		}
		if w.clock.at.After(end) || n > calmEvents {
			w.fail(settles, w.unsettled())
			return
		}
		if !w.comeOn() {
			w.fail(settles, "nothing happens any more: "+w.unsettled())
			return
		}
	}
}

// comeOn has the event happen whose turn it is or, when there is none, time pass until
// there may be. It is false when nothing happens any more.
func (w *World) comeOn() bool {
	if c, ok := w.turn(); ok {
		w.do(c)
		return true
	}
	if next := w.next(); !next.IsZero() {
		w.pass(w.pause(next))
		return true
	}
	return w.remedy()
}

// remedy is what an administrator does about faults that are Kueue's own.
func (w *World) remedy() bool {
	if !w.kueue.Overlooks() {
		return false
	}
	w.guard("administrator: restart Kueue", w.kueue.Restart)
	w.changed()
	return true
}

// turn is the event whose turn it is: the one that may happen and happened longest
// ago, so that none waits for ever.
func (w *World) turn() (chosen choice, ok bool) {
	oldest := 0
	for c := range w.events() {
		if !c.helps {
			continue
		}
		if c.turn < 0 {
			c.turn = w.turnNamed(c.Name)
		}
		if at := w.turns[c.turn]; !ok || at < oldest {
			chosen, oldest, ok = *c, at, true
		}
	}
	if ok {
		w.turns[chosen.turn] = w.steps + 1
	}
	return chosen, ok
}

// turnNamed is the place of an event's turn.
func (w *World) turnNamed(name string) int {
	turn, ok := w.turnOf[name]
	if !ok {
		turn = len(w.turns)
		w.turns = append(w.turns, 0)
		if w.turnOf == nil {
			w.turnOf = map[string]int{}
		}
		w.turnOf[name] = turn
	}
	return turn
}

// Recorded runs the world of a seed and returns all that happened.
func Recorded(seed uint64) (Script, Result) {
	w := run(drawn(seed), true)
	return w.done.script(), w.result()
}

// RecordedScript does what a script says in the world of a seed, then lets it come to
// rest, and returns all that happened.
func RecordedScript(seed uint64, s Script) (Script, Result) {
	w := New(drawn(seed))
	w.record = true
	w.perform(s)
	w.calm()
	return w.done.script(), w.result()
}

func (w *World) result() Result {
	calls := 0
	for _, r := range w.runners {
		calls += int(r.Syncs())
	}
	return Result{
		Seed: w.config.Seed, Broken: w.broken, Events: w.steps, Calls: calls,
		Lives: len(w.promises.order), Attempts: len(w.trainer.Attempts()),
	}
}

// settleDown ends what faults have done that lasts, and all flaws to come.
func (w *World) settleDown() {
	w.calmed = true
	for _, r := range w.runners[1:] {
		r.Crash() // there is one leader in the end
	}
	w.cluster.Heal()
	w.trainer.Heal()
	w.people.startQueues()
	w.store.Up()
	w.store.Agree()
	w.people.done = true
	w.offerFaults(false)
}
