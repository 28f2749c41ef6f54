//go:build e2e

package differential

import (
	"maps"
	"slices"
	"time"

	"rtj.dev/rtj/test/world/apiserver"
	"rtj.dev/rtj/test/world/event"
)

// simulated is a world of the models.
type simulated struct {
	part   part
	ns     string
	api    *apiserver.Server
	clock  time.Time
	actors []event.Actor
	// last is the state of each traced object, changes what they came to since they were
	// last looked at.
	last    map[string]string
	changes []change
}

func newSimulated(p part, namespace string) *simulated {
	s := &simulated{part: p, ns: namespace, clock: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), last: map[string]string{}}
	s.api = apiserver.New(s.now)
	s.api.Trace = s.trace
	s.actors = p.actors(s, nil)
	return s
}

func (s *simulated) clone() *simulated {
	c := &simulated{part: s.part, ns: s.ns, clock: s.clock, last: maps.Clone(s.last)}
	c.api = s.api.Clone(c.now)
	c.api.Trace = c.trace
	c.actors = s.part.actors(c, s.actors)
	return c
}

func (s *simulated) now() time.Time { return s.clock }

func (s *simulated) in(kind string) string {
	if namespaced(kind) {
		return s.ns
	}
	return ""
}

func (s *simulated) create(body object) error {
	_, err := s.api.Create("script", body)
	return err
}

func (s *simulated) patch(kind, name string, patch object, subresource string) error {
	_, err := s.api.Patch("script", kind, s.in(kind), name, patch, subresource)
	return err
}

func (s *simulated) delete(kind, name string) error {
	return s.api.Delete("script", kind, s.in(kind), name, apiserver.Deletion{})
}

// get returns nil where there is no such object.
func (s *simulated) get(kind, name string) object {
	if o := s.api.Get(kind, s.in(kind), name); o != nil {
		return o.Body
	}
	return nil
}

func (s *simulated) second() { s.clock = s.clock.Add(time.Second) }

func (s *simulated) next() (next time.Time) {
	for _, a := range s.actors {
		next = event.Soonest(next, a.Next())
	}
	return next
}

// events are the names of what may happen.
func (s *simulated) events() (names []string) {
	for _, a := range s.actors {
		a.Events(func(e event.Event) {
			if !e.Fault && !s.part.skip(e.Name) {
				names = append(names, e.Name)
			}
		})
	}
	return names
}

func (s *simulated) do(name string) {
	for _, a := range s.actors {
		var do func()
		a.Events(func(e event.Event) {
			if e.Name == name {
				do = e.Do
			}
		})
		if do != nil {
			do()
			return
		}
	}
}

func (s *simulated) trace(w apiserver.Write) {
	o := w.New
	if o == nil {
		o = w.Old
	}
	if !slices.Contains(s.part.traced, o.Kind) {
		return
	}
	state := "gone"
	if w.New != nil {
		state = s.part.state[o.Kind](o.Body)
	}
	if key := o.String(); s.last[key] != state {
		s.last[key] = state
		s.changes = append(s.changes, change{key, state})
	}
}

func (s *simulated) show() string {
	return s.part.show(func(kind string) []object {
		var list []object
		for _, o := range s.api.List(kind) {
			list = append(list, o.Body)
		}
		return list
	})
}

// memory is what the actors remember.
func (s *simulated) memory() string {
	var m memory
	s.part.memory(s.actors, &m)
	return m.String()
}
