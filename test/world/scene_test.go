package world

import (
	"testing"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/trainer"
)

// scene is a world in which nothing goes wrong but what a test does. The promises
// judge it too.
type scene struct {
	*World
	t *testing.T
	// watch, if set, is called after every event.
	watch func()
}

func newScene(t *testing.T, c Config) *scene {
	c.Seed, c.Runners, c.LetPanic = 1, 1, true
	return &scene{World: New(c), t: t}
}

// timed workers make a step in two seconds, save when they are asked to end, and do
// everything right.
func timed(total int64) func(trainer.Attempt) trainer.Behaviour {
	return func(trainer.Attempt) trainer.Behaviour { return trainer.Timed(total) }
}

// until has the world come on until something is so, and fails when it takes longer
// than it may.
func (s *scene) until(what string, within time.Duration, so func() bool) {
	s.t.Helper()
	for end := s.Now().Add(within); !so(); {
		if s.broken != nil {
			s.t.Fatal(s.broken)
		}
		if s.Now().After(end) || !s.comeOn() {
			s.t.Fatalf("%s: in vain until %s: %s", s.Now().Sub(epoch), what, s.unsettled())
		}
		if s.watch != nil {
			s.watch()
		}
	}
}

// passes lets the world come on for so long, and the time pass when nothing is left.
func (s *scene) passes(d time.Duration) {
	s.t.Helper()
	for end := s.Now().Add(d); s.Now().Before(end); {
		if s.broken != nil {
			s.t.Fatal(s.broken)
		}
		if !s.comeOn() {
			s.pass(end.Sub(s.Now()))
		}
	}
}

func (s *scene) job(name string) *apiserver.Object { return s.api.Get(jobKind, namespace, name) }

func (s *scene) phase(name string) string {
	if o := s.job(name); o != nil {
		return o.Text("status", "phase")
	}
	return "gone"
}

func (s *scene) is(name, phase string) func() bool {
	return func() bool { return s.phase(name) == phase }
}

// created has somebody create a job that is planned.
func (s *scene) created(name string) {
	for i := range s.people.plans {
		if p := &s.people.plans[i]; p.name == name {
			s.people.create(p)
		}
	}
	s.changed()
}

// podsOf a job that may run.
func (s *scene) podsOf(name string) (n int64) {
	uid := s.job(name).UID
	for _, pod := range s.api.List("Pod") {
		if pod.Label(labelUID) == uid && mayRun(pod) {
			n++
		}
	}
	return n
}

// holds tells whether the job has quota.
func (s *scene) holds(name string) bool {
	for _, o := range s.api.Owned("Workload", s.job(name).UID) {
		if o.True("QuotaReserved") && !o.True("Finished") {
			return true
		}
	}
	return false
}
