package edge

import (
	"slices"
	"time"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/compose/checkpoint"
	"rtj.dev/rtj/hooks/catalog"
)

const (
	// InlineRead is how long an answer waits for a reading before it is given
	// without.
	InlineRead = 2 * time.Second
	// ReadTimeout bounds one reading.
	ReadTimeout = time.Minute
	// LaunchTimeout bounds one dry run, and so the answer that waits for it.
	LaunchTimeout = 2 * time.Second
	// Lasts is how long a job that is not synced is remembered: longer than runners
	// take between two syncs of a job in which nothing happens.
	Lasts = 2 * time.Hour

	// lookAgain is how soon a runner that is not told of news asks for them.
	lookAgain = time.Second
	// recheckLasts is how long a check of a checkpoint's objects stands: as long as
	// a launch relies on one reading.
	recheckLasts = 30 * time.Second
)

// Memory is what is remembered of one job between two answers. It is only there to
// save work and to answer soon; all of it can be lost at any time. The zero value
// remembers nothing. A copy goes on by itself.
type Memory struct {
	// The newest reading of the store: of which run, and what it found.
	place    Place
	snapshot *checkpoint.Snapshot
	// due are the checkpoints that the next launch would restore, and dueSince when
	// that became so: checks from before do not count for it.
	due      []string
	dueSince time.Time
	// reading goes on if it is not nil; waiting: an answer waits for it.
	reading *Reading
	waiting bool

	launch launch

	// patchesSince is when patches were wanted first, and in every answer since;
	// zero: none are.
	patchesSince time.Time
}

// Reading is a reading of the store that goes on.
type Reading struct {
	Place Place
	Begun time.Time
	Ask   catalog.Ask
}

// Snapshot is the newest reading of the store, of whichever run; nil: there was none.
func (m *Memory) Snapshot() *checkpoint.Snapshot { return m.snapshot }

// beginReading returns the reading that has to begin now, or nil.
func (m *Memory) beginReading(p Place, wish compose.CatalogRead, include []string, now time.Time) *Reading {
	if now.Before(wish.NotBefore) || m.reading != nil || m.satisfies(p, wish, now) {
		return nil
	}
	m.reading = &Reading{Place: p, Begun: now, Ask: catalog.Ask{
		NotBefore: wish.NotBefore, Recheck: m.unchecked(p, wish.Recheck, now), Include: include,
	}}
	m.waiting = true
	return m.reading
}

// EndReading takes what a reading found. It reports whether an answer waits for it;
// if not, somebody has to be told of the news.
func (m *Memory) EndReading(r *Reading, snapshot *checkpoint.Snapshot) (waited bool) {
	m.place, m.snapshot, m.reading = r.Place, snapshot, nil
	return m.waiting
}

// stopWaiting reports whether the reading ended after all.
func (m *Memory) stopWaiting(r *Reading) bool {
	if m.reading != r {
		return true
	}
	m.waiting = false
	return false
}

// satisfies reports whether nothing has to be read for the wish.
func (m *Memory) satisfies(p Place, wish compose.CatalogRead, now time.Time) bool {
	return m.isSince(p, wish.NotBefore) && len(m.unchecked(p, wish.Recheck, now)) == 0
}

// isSince reports whether the snapshot began at the time or later.
func (m *Memory) isSince(p Place, t time.Time) bool {
	return t.IsZero() || m.snapshot != nil && m.place == p && !m.snapshot.ListedAt.Before(t)
}

// unchecked returns those of the checkpoints that a launch would restore whose
// objects were not compared since it became due, or not recently.
func (m *Memory) unchecked(p Place, ids []string, now time.Time) (left []string) {
	for _, id := range ids {
		at := m.checkedAt(p, id)
		if now.Sub(at) > recheckLasts || at.Before(m.dueSince) {
			left = append(left, id)
		}
	}
	return left
}

// becomesDue notes which checkpoints a launch would restore, by the newest
// decision.
func (m *Memory) becomesDue(ids []string, now time.Time) {
	if !slices.Equal(ids, m.due) {
		m.due, m.dueSince = ids, now
	}
}

// checkedAt is when the objects of a checkpoint were compared last; zero: never.
func (m *Memory) checkedAt(p Place, id string) time.Time {
	if m.snapshot != nil && m.place == p {
		for i := range m.snapshot.Manifests {
			if known := &m.snapshot.Manifests[i]; known.ID == id {
				return known.CheckedAt
			}
		}
	}
	return time.Time{}
}

// SnapshotOf returns the newest snapshot of the run, or nil.
func (m *Memory) SnapshotOf(p Place) *checkpoint.Snapshot {
	if m.place != p {
		return nil
	}
	return m.snapshot
}

// mustWait reports whether a decision relies on a check of a checkpoint's objects
// that is still to be made.
func (m *Memory) mustWait(p Place, wish compose.CatalogRead, now time.Time) bool {
	return m.snapshot != nil && m.place == p && wish.NotBefore.IsZero() && len(m.unchecked(p, wish.Recheck, now)) > 0
}

// readingAgain is when to look for the outcome of a reading that goes on, or to
// begin one that must not begin yet; 0: neither.
func (m *Memory) readingAgain(p Place, wish compose.CatalogRead, now time.Time) time.Duration {
	switch {
	case m.reading == nil && m.satisfies(p, wish, now):
		return 0
	case m.reading == nil && wish.NotBefore.After(now):
		return wish.NotBefore.Sub(now)
	default:
		return lookAgain
	}
}
