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
	if s.Offer.Damage {
		s.victims(func(key string) {
			fault("lose "+key, func() { s.Lose(key) })
			fault("cut "+key, func() { s.Cut(key) })
			fault("rot "+key, func() { s.Rot(key) })
			if strings.HasSuffix(key, ".json") && len(s.unreadable) == 0 {
				fault("contradict "+key, func() { s.Contradict(key) })
			}
		})
	}
	if s.Offer.Foreign {
		s.runs(func(run string, _ []*Object) {
			for _, f := range foreign {
				if key := run + f.key; !s.Has(key) {
					fault("foreign "+key, func() {
						s.set(&Object{Key: key, Data: []byte(f.data), ETag: ETag([]byte(f.data)), Modified: s.modified()})
					})
				}
			}
		})
	}
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
