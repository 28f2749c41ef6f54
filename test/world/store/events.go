package store

import (
	"strings"
	"time"

	"rtj.dev/rtj/test/world/event"
)

// Events adds what may happen to the store now. That it answers again, and that a
// listing shows what is late, are no faults: they were when they began.
func (s *Store) Events(add func(event.Event)) {
	fault := func(name string, do func()) {
		add(event.Event{Name: "store: " + name, Fault: true, Do: do})
	}
	if s.Failure() != nil {
		add(event.Event{Name: "store: answers again", Do: s.Up})
	} else {
		if s.Offer.Outages {
			fault("outage", func() { s.Down(Outage) })
			fault("SlowDown", func() { s.Down(Throttled) })
		}
		if s.Offer.Denials {
			fault("access denied", func() { s.Down(Denied) })
		}
	}
	if len(s.late) > 0 {
		now := s.env.Now()
		for _, l := range s.late {
			if now.Before(l.until) {
				add(event.Event{Name: "store: list shows " + l.key, Do: func() { s.Show(l.key) }})
			}
		}
	}
	if len(s.unreadable) > 0 {
		add(event.Event{Name: "store: no longer contradicts itself", Do: s.Agree})
	}
	if s.Offer.Damage || s.Offer.Foreign {
		for _, f := range s.faults() {
			if f.foreign && !s.Offer.Foreign || !f.foreign && !s.Offer.Damage || f.contradicts && len(s.unreadable) > 0 {
				continue
			}
			add(event.Event{Name: f.name, Fault: true, Do: func() { f.do(s, f.key) }})
		}
	}
}

// fault is what may happen to an object.
type fault struct {
	name, key   string
	foreign     bool
	contradicts bool
	do          func(s *Store, key string)
}

// faults are those of the objects that are there now.
func (s *Store) faults() []fault {
	if s.possible != nil && s.possibleShape == s.shape {
		return s.possible
	}
	list := []fault{}
	s.victims(func(key string) {
		list = append(list,
			fault{name: "store: lose " + key, key: key, do: (*Store).Lose},
			fault{name: "store: cut " + key, key: key, do: (*Store).Cut},
			fault{name: "store: rot " + key, key: key, do: (*Store).Rot})
		if strings.HasSuffix(key, ".json") {
			list = append(list, fault{name: "store: contradict " + key, key: key, contradicts: true, do: (*Store).Contradict})
		}
	})
	s.runs(func(run string, _ []*Object) {
		for i := range foreign {
			if key := run + foreign[i].key; !s.Has(key) {
				list = append(list, fault{name: "store: foreign " + key, key: key, foreign: true, do: func(s *Store, key string) {
					data := []byte(foreign[i].data)
					s.set(&Object{Key: key, Data: data, ETag: ETag(data), Modified: s.modified()})
				}})
			}
		}
	})
	s.possible, s.possibleShape = list, s.shape
	return list
}

// Next is when the store answers again by itself, or a listing shows what is late.
func (s *Store) Next() time.Time {
	var next time.Time
	if s.Failure() != nil {
		next = s.failureEnds
	}
	now := s.env.Now()
	for _, l := range s.late {
		if now.Before(l.until) {
			next = event.Soonest(next, l.until)
		}
	}
	return next
}
