package world

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/jobs"
	"rtj.dev/rtj/test/world/kueue"
	"rtj.dev/rtj/test/world/runner"
	"rtj.dev/rtj/test/world/store"
	"rtj.dev/rtj/test/world/trainer"
)

// parts are those of a world.
type parts struct {
	api       *apiserver.Server
	collector *apiserver.Collector
	kueue     *kueue.Kueue
	cluster   *jobs.Cluster
	store     *store.Store
	trainer   *trainer.Trainer
	runners   []*runner.Runner
	people    *people
}

// New returns the world of a configuration, at its beginning.
func New(c Config) *World {
	w := &World{config: c, clock: &clock{epoch}, promises: newPromises(), deletedByOthers: map[string]bool{}, startedByHand: map[string]bool{}, rotten: map[string][]string{}}
	w.api = apiserver.New(w.clock.now)
	w.collector = apiserver.NewCollector(w.api)
	w.store = store.New(store.Env{Now: w.clock.now})
	if c.SlowListings {
		w.store.SlowListings(slowListing)
	}
	w.trainer = trainer.New(w.workersEnv())
	w.kueue = kueue.New(w.kueueEnv(), c.kueue())
	w.cluster = jobs.New(w.clusterEnv())
	if err := setting(w.api, c.Quotas); err != nil {
		panic(err) // an empty server takes it
	}
	w.people = &people{
		api: w.api, rollbacks: w.rollbacks, acts: c.Acts,
		deletes: c.Deletes, ends: c.Ends, meddles: c.Meddles,
	}
	w.traced()
	for i, name := range c.jobNames() {
		spec := jobSpec("queue", int64(c.Pods), 3)
		if c.Explored {
			spec["checkpoint"].(map[string]any)["interval"] = "1s" // after each step
		}
		if i < c.Urgent {
			spec["priorityClassName"] = "high"
		}
		w.people.plans = append(w.people.plans, plan{name: name, spec: spec, again: c.again(i)})
		if i >= c.Urgent {
			w.people.create(&w.people.plans[len(w.people.plans)-1]) // the urgent ones come later
		}
	}
	for i := range c.Runners {
		w.runners = append(w.runners, runner.New(w.runnerEnv(), c.runner(i)))
	}
	w.offers = offersOf(&w.parts)
	w.offerFaults(c.Faults > 0)
	return w
}

// offerFaults has faults be offered, or not.
func (w *World) offerFaults(are bool) {
	damage := are && w.config.Damage
	w.store.Offer = store.Faults{Outages: are, Denials: are, Damage: damage, Foreign: damage}
	w.trainer.Offer = trainer.Faults{Crashes: are, Hangs: are, LostAnswers: are, TornSaves: are}
	w.cluster.Faultless = !are
	for _, r := range w.runners {
		r.Faults = are
	}
	w.changed()
}

// Clone returns the same world once more. What happens in one does not in the other.
func (w *World) Clone() *World {
	c := *w
	c.clock = &clock{w.clock.at}
	c.api = w.api.Clone(c.clock.now)
	c.collector = apiserver.NewCollector(c.api)
	c.store = w.store.Clone(store.Env{Now: c.clock.now})
	c.trainer = w.trainer.Clone(c.workersEnv())
	c.kueue = w.kueue.Clone(c.kueueEnv())
	c.cluster = w.cluster.Clone(c.clusterEnv())
	c.people = w.people.clone(c.api, c.rollbacks)
	c.promises = w.promises.clone()
	c.runners = nil
	for _, r := range w.runners {
		c.runners = append(c.runners, r.Clone(c.runnerEnv()))
	}
	c.decisions.rules = slices.Clip(w.decisions.rules)
	c.turns, c.turnOf, c.weights = slices.Clone(w.turns), maps.Clone(w.turnOf), maps.Clone(w.weights)
	c.unseenAt = slices.Clip(w.unseenAt)
	c.rotten = maps.Clone(w.rotten)
	c.deletedByOthers, c.startedByHand = maps.Clone(w.deletedByOthers), maps.Clone(w.startedByHand)
	c.offers = offersOf(&c.parts)
	c.traced()
	return &c
}

func (w *World) kueueEnv() kueue.Env { return kueue.Env{API: w.api, Now: w.clock.now} }

func (w *World) clusterEnv() jobs.Env {
	return jobs.Env{API: w.api, Now: w.clock.now, Workers: w.trainer}
}

func (w *World) workersEnv() trainer.Env {
	return trainer.Env{Now: w.clock.now, Store: w.store, Behave: w.behave}
}

func (w *World) runnerEnv() runner.Env {
	return runner.Env{
		API: w.api, Now: w.clock.now, Store: w.store, Trace: w.decided,
		JSON:    w.viaJSON,
		Differs: func(err error) { w.fail(sameAsMessages, err.Error()) },
	}
}

// behave chooses how the workers of an attempt behave.
func (w *World) behave(a trainer.Attempt) trainer.Behaviour {
	if w.config.Explored {
		b := trainer.Behaviour{Total: w.config.Steps, Whole: true, StepTime: 10 * time.Second, SaveTime: 3 * time.Second, RestoreTime: time.Second}
		b.Reshard = w.config.Reshard
		return b
	}
	if w.config.Behave != nil {
		return w.config.Behave(a)
	}
	r := Random(w.config.Seed, fmt.Sprintf("attempt %d of %s/%s", a.Number, a.Name, a.RunID))
	b := trainer.Timed(w.config.Steps)
	if r.Float64() < w.config.Flaws && !w.calmed {
		b = trainer.Drawn(r, w.config.Steps, a.WorldSize)
	} else {
		b.StepTime = time.Duration(200+r.IntN(20_000)) * time.Millisecond
		b.SaveTime = time.Duration(r.IntN(20_000)) * time.Millisecond
		b.Whole = r.IntN(3) > 0
	}
	if t := w.config.StepTime; t > 0 {
		b.StepTime = t
	}
	b.Reshard = w.config.Reshard
	return b
}

// rollbacks are checkpoints of a job that somebody may want to go back to.
func (w *World) rollbacks(name string) (ids []string) {
	job := w.api.Get(jobKind, namespace, name)
	for _, a := range w.trainer.Over() {
		if job == nil || a.RunID != job.UID {
			continue
		}
		for _, c := range a.Commits {
			if len(ids) < 3 {
				ids = append(ids, c.ID)
			}
		}
	}
	return ids
}

// slowListing is how late a listing may show an object.
const slowListing = 20 * time.Second

// jsonEvery is which part of the syncs goes through the messages of the hooks too,
// where the configuration does not say.
const jsonEvery = 100

func (w *World) viaJSON() bool {
	w.calls++
	every := w.config.JSONEvery
	if every == 0 {
		every = jsonEvery
	}
	return w.calls%every == 0
}

// Events that the promises must know of, by what their names begin with: damaging are
// those that damage an object of the store, hiding those that leave processes behind
// which nobody sees.
var (
	damaging = []string{"store: lose ", "store: cut ", rot, "store: contradict "}
	hiding   = []string{"fault: lose node ", "fault: force pod ", "fault: delete job "}
)

// rot is a change of bytes that no listing shows.
const rot = "store: rot "

// startByHand is a person's start of a JobSet.
const startByHand = "user: start JobSet "

// noted is what an event does to what the promises must know.
func (w *World) noted(name string) {
	if hasPrefix(name, damaging) {
		w.damagedAt = w.clock.at
	}
	if key, ok := strings.CutPrefix(name, rot); ok {
		w.rotten[key] = w.running()
	}
	if hasPrefix(name, hiding) {
		w.unseenAt = append(w.unseenAt, w.clock.at)
	}
	if jobSet, ok := strings.CutPrefix(name, startByHand); ok {
		w.startedByHand[jobSet] = true
	}
}
