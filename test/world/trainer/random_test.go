package trainer

import (
	"math/rand/v2"
	"testing"
	"time"

	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog"
	"rtj.dev/rtj/test/world/event"
	"rtj.dev/rtj/test/world/store"
)

// Random lives with every flaw and fault: names are unique, clones go the same way,
// what is committed is whole, nothing is in the past for ever.
func TestRandomLives(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 0))
		r := newRig(t, Behaviour{})
		timed := random.IntN(2) == 0
		r.env.Behave = func(Attempt) Behaviour {
			b := Drawn(random, 1+random.Int64N(200), 2)
			if !timed {
				b.StepTime, b.SaveTime = 0, 0
			}
			return b
		}
		r.Offer = Faults{Crashes: true, Hangs: true, LostAnswers: true, TornSaves: true}
		attempt := int32(0)
		for n := range 400 {
			switch random.IntN(40) {
			case 0:
				attempt++
				r.start(attempt, r.selectedOrNone())
			case 1:
				if attempt > 0 {
					r.ask(attempt, time.Duration(random.IntN(60))*time.Second)
				}
			case 2:
				r.Terminate(uid(max(1, attempt-random.Int32N(2)), random.IntN(2)))
			case 3:
				if random.IntN(4) == 0 {
					r.Kill(uid(max(1, attempt), random.IntN(2)))
				}
			case 4:
				if random.IntN(4) == 0 {
					r.store.Down([]*catalog.Error{store.Outage, store.Denied, store.Throttled}[random.IntN(3)])
				} else {
					r.store.Up()
				}
			case 5:
				if next := event.Soonest(r.Next(), r.store.Next()); !next.IsZero() {
					if !next.After(r.now) {
						t.Fatalf("seed %d: next is %s, it is %s", seed, next, r.now)
					}
					r.now = next
				} else {
					r.now = r.now.Add(time.Second)
				}
			}
			var events []event.Event
			names := map[string]bool{}
			r.Events(func(e event.Event) {
				if names[e.Name] {
					t.Fatalf("seed %d: %q twice", seed, e.Name)
				}
				names[e.Name] = true
				if !e.Fault || random.IntN(20) == 0 {
					events = append(events, e)
				}
			})
			if len(events) == 0 {
				continue
			}
			chosen := events[random.IntN(len(events))]
			clone := r.clone()
			if err := clone.Do(chosen.Name); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			before := len(r.store.Truth(r.run(), catalog.Ask{}).Manifests)
			chosen.Do()
			if before > len(r.store.Truth(r.run(), catalog.Ask{}).Manifests) {
				t.Fatalf("seed %d: %s took a manifest", seed, chosen.Name)
			}
			if clone.fingerprint() != r.fingerprint() {
				t.Fatalf("seed %d: after %q a clone is another", seed, chosen.Name)
			}
			// The product reads in the records what the workers say that they wrote.
			if n%10 == 0 {
				if err := r.store.Compare(r.run(), catalog.Ask{}); err != nil {
					t.Fatalf("seed %d: after %q: %v", seed, chosen.Name, err)
				}
			}
		}
		whole(t, r)
		r.endsInTime(seed)
		whole(t, r)
	}
}

// endsInTime fails if workers that got SIGTERM run on when their grace period is over,
// though they are neither deaf nor silent.
func (r *rig) endsInTime(seed uint64) {
	r.t.Helper()
	r.store.Up()
	for i := range r.processes {
		r.Terminate(r.processes[i].uid)
	}
	killed := r.now.Add(30 * time.Second)
	for {
		r.Work(func() bool { return false })
		next := event.Soonest(r.Next(), r.store.Next())
		if next.IsZero() || next.After(killed) {
			break
		}
		r.now = next
	}
	for i := range r.processes {
		p := &r.processes[i]
		if g := r.gang(p.gang); !g.behaviour.Deaf && !r.silent(g, p) {
			r.t.Fatalf("seed %d: %s of attempt %d runs on: %+v", seed, p.uid, g.Number, g)
		}
	}
}

func (r *rig) selectedOrNone() string {
	c := checkpoint.Select(r.store.Truth(r.run(), catalog.Ask{}), checkpoint.Query{RunID: "run-1", WorldSize: 2})
	if c.Selected == nil {
		return ""
	}
	return c.Selected.ID
}

// clone is the same rig at the same time, with a store of its own.
func (r *rig) clone() *rig {
	c := &rig{t: r.t, now: r.now, behaviour: r.behaviour}
	c.store = r.store.Clone(store.Env{Now: c.clock})
	env := c.environment()
	env.Behave = r.env.Behave
	c.Trainer = r.Trainer.Clone(env)
	return c
}

func BenchmarkLife(b *testing.B) {
	events := 0
	for b.Loop() {
		r := newRig(nil, Behaviour{StepTime: time.Second, SaveTime: 5 * time.Second, Total: 100})
		r.start(1, "")
		for !r.ended() {
			before := events
			r.Work(func() bool { events++; return r.ended() })
			if next := r.Next(); !next.IsZero() && events > before {
				r.now = next
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
}
